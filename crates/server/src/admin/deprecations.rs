//! `/deprecations.json`: deprecated elements that resources use, and the clients that have these resources.

use super::state::Admin;
use crate::clients::{Client, ClientCursor};
use crate::deprecations::{ClientSearch, Deprecations};
use oxds_types::identity::user_agent;

/// Returns the content of the page.
pub(super) fn of(admin: &Admin) -> Deprecations {
    let context = &admin.context;
    let mut search = ClientSearch::new(&admin.health.deprecated_uses());
    let mut see = |client: &Client<'_>, _: &_| {
        let id = client.node.map_or("", |node| &node.id);
        let user_agent = client.node.map(user_agent).unwrap_or_default();
        search.see(id, &user_agent, |resource_type, name| {
            let status = client.resource(resource_type, name);
            status.is_some_and(|status| status.sent.is_some() || status.acked.is_some())
        });
    };
    let mut cursor = ClientCursor::default();
    while let Some(next) = context.clients.see_next(&context.cache, cursor, &mut see) {
        cursor = next;
    }
    search.finish()
}
