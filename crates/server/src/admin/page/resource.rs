//! One resource: its content as YAML, its place, what it refers to, and who has it.

use std::sync::Arc;

use maud::{Markup, html};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_types::ResourceType;

use super::content;
use super::layout::{Section, View};
use super::parts::{count, resource_link, shown};
use super::resources::{origin, resource_type};
use super::url::{Query, url};
use crate::admin::state::Admin;
use crate::admin::status::Position;
use crate::clients::{Client, ClientCursor};

/// Clients that are listed by name.
const LISTED: usize = 50;
/// Clients after which other tasks run.
const BATCH: usize = 64;

/// The clients that subscribe to a resource.
#[derive(Debug, Default)]
struct Holders {
    current: usize,
    other: usize,
    nacked: usize,
    /// The first ones that do not have the current content, then others: position, node id, and state.
    behind: Vec<(ClientCursor, String, &'static str)>,
    up_to_date: Vec<(ClientCursor, String, &'static str)>,
}

/// Returns the page of a resource; `None` if it does not exist.
pub(super) async fn view(admin: &Admin, query: &Query) -> Option<View> {
    let (type_name, name, group) = (query.get("type"), query.get("name"), query.get("group"));
    let cache = &admin.context.cache;
    let resource = match group {
        "" => {
            let resource_type = resource_type(admin, type_name)?;
            Arc::clone(cache.snapshot().get(&resource_type, name)?)
        }
        group => {
            let of_group = cache.resources_of_group(group).into_iter();
            let mut same = of_group.filter(|one| **one.name() == *name);
            same.find(|one| one.resource_type().to_string() == type_name)?
        }
    };
    let holders = Holders::of(admin, resource.resource_type(), &resource).await;
    let title = shown(name);
    let content = html! {
        h1 { span.soft { (type_name) } " " (title) }
        dl {
            dt { "Version" } dd { code { (resource.version()) } }
            @if resource.origin().is_some() { dt { "From" } dd { (origin(&resource)) } }
            @if !group.is_empty() { dt { "Group" } dd { (shown(group)) } }
            @if let Some(ttl) = resource.ttl() { dt { "TTL" } dd { (ttl.as_secs_f64()) " s" } }
            @if !resource.references().is_empty() { dt { "Refers to" } dd { (references(admin, &resource)) } }
            @if *resource.resource_type() == ResourceType::LISTENER {
                dt { "Graph" } dd { a href=(url("/graph", &[("listener", name)])) { "show where its requests go" } }
            }
        }
        (holders.table())
        h2 { "Content" }
        pre tabindex="0" aria-label="Content as YAML" { (content::yaml(&resource)) }
    };
    Some(View {
        section: Section::Resources,
        title,
        content,
    })
}

fn references(admin: &Admin, resource: &Resource) -> Markup {
    let snapshot = admin.context.cache.snapshot();
    let all = resource.references();
    html! {
        @for (at, reference) in all.iter().take(LISTED).enumerate() {
            @if at > 0 { ", " }
            (reference.resource_type) " "
            @if snapshot.get(&reference.resource_type, &reference.name).is_some() {
                (resource_link(&reference.resource_type.to_string(), &reference.name, ""))
            } @else { (shown(&reference.name)) " " span.badge.bad { "missing" } }
        }
        @if all.len() > LISTED { " and " (all.len() - LISTED) " more" }
    }
}

impl Holders {
    async fn of(admin: &Admin, resource_type: &ResourceType, resource: &Resource) -> Self {
        let context = &admin.context;
        let (mut holders, mut cursor, mut seen) = (Self::default(), ClientCursor::default(), 0);
        loop {
            let mut found = None;
            let mut see = |client: &Client<'_>, _: &Snapshot| {
                let id = client.node.map(|node| shown(&node.id)).unwrap_or_default();
                found = client
                    .resource(resource_type, resource.name())
                    .map(|status| (id, status));
            };
            let Some(next) = context.clients.see_next(&context.cache, cursor, &mut see) else {
                break;
            };
            if let Some((id, status)) = found {
                let is_current = status.acked == Some(resource.version());
                let (number, list, state) = match (&status.nacked, is_current) {
                    (Some(_), _) => (&mut holders.nacked, &mut holders.behind, "NACKed"),
                    (None, true) => (&mut holders.current, &mut holders.up_to_date, "has it"),
                    (None, false) => (&mut holders.other, &mut holders.behind, "other version"),
                };
                *number += 1;
                if list.len() < LISTED {
                    list.push((next.clone(), id, state));
                }
            }
            cursor = next;
            seen += 1;
            if seen % BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        holders
    }

    fn table(&self) -> Markup {
        let total = self.current + self.other + self.nacked;
        let listed = self.behind.iter().chain(&self.up_to_date).take(LISTED);
        html! {
            h2 { "Clients" span.more { " · " (count(self.current, "client")) " with this version, " (self.other) " without, "
                (self.nacked) " NACKed it" } }
            @if total == 0 { p.none { "No client subscribes to it." } }
            @else {
                ul.tabs { @for (cursor, id, state) in listed {
                    @let class = match *state { "has it" => "ok", "NACKed" => "bad", _ => "wait" };
                    @let at = Position::Client(cursor.clone()).to_string();
                    li { a href=(url("/client", &[("at", &at)])) { (id) " " span.badge.(class) { (state) } } }
                } }
                @if total > LISTED { p.soft { "and " (total - LISTED) " more" } }
            }
        }
    }
}
