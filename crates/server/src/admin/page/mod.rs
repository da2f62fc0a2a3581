//! The status page: views of the server for people, as HTML that is complete without a script.
//!
//! ```text
//!   request ──▶ long poll: wait until the tag differs ──▶ shared view? ── no ──▶ fleet (shared, ≤ 1/s)
//!                                                                                  │
//!                                                                                  ▼
//!                                                         response ◀── frame ◀── view
//! ```
//! Everything that a view shows may come from a hostile client or file: the template escapes it, `parts::shown` bounds
//! it, and the policy of the page runs no script but its own.

mod client;
mod clients;
mod content;
mod fleet;
mod graph;
mod history;
mod layout;
mod overview;
mod parts;
mod resource;
mod resources;
mod url;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};

use super::long_poll;
use super::state::Admin;
use fleet::FleetCache;
use layout::{Head, View, missing};
use url::Query;

/// Returns the routes of the views, which share one look at the clients.
pub(super) fn routes() -> Router<Arc<Admin>> {
    let paths = [
        "/",
        "/clients",
        "/client",
        "/resources",
        "/resource",
        "/graph",
        "/history",
        "/change",
    ];
    let add = |router: Router<Arc<Admin>>, path| router.route(path, get(page));
    let fleet = Arc::new(FleetCache::default());
    paths
        .into_iter()
        .fold(Router::new(), add)
        .layer(Extension(fleet))
}

async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(fleet): Extension<Arc<FleetCache>>,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    if !long_poll::wait(&admin.context, &headers).await {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let make = make(&admin, &fleet, &uri, query.as_deref().unwrap_or_default());
    long_poll::shared(&admin, &uri, &headers, make).await
}

/// Makes a view.
async fn make(admin: &Arc<Admin>, fleet: &FleetCache, uri: &Uri, query: &str) -> Response {
    let fleet = fleet.get(&admin.context).await;
    let query = Query::parse(query);
    let now = admin.context.server.clock.now();
    let found = match uri.path() {
        "/clients" => Some(clients::view(&fleet, &query, now)),
        "/client" => client::view(admin, &query),
        "/resources" => Some(resources::view(admin, &query)),
        "/resource" => resource::view(admin, &query).await,
        "/history" => Some(history::list(admin, &query)),
        "/change" => history::change(admin, &query).await,
        "/graph" => {
            let admin = Arc::clone(admin);
            // An explanation reads a whole route table.
            let drawn = tokio::task::spawn_blocking(move || graph::view(&admin, &query));
            drawn.await.ok()
        }
        _ => Some(overview::view(admin, &fleet)),
    };
    let (status, view): (StatusCode, View) = match found {
        Some(view) => (StatusCode::OK, view),
        None => missing(
            "Not found",
            "It does not exist any more, or has disconnected.",
        ),
    };
    let head = Head {
        identifier: admin.context.config.identifier.clone().unwrap_or_default(),
        notice: notice(admin),
        errors: admin.health.counts().errors,
        nacking: fleet.nacked,
    };
    // The fleet may be a second old: with its tag, the next poll returns at once.
    let tag = long_poll::quoted(&fleet.tag);
    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    let mut response = layout::page(&head, &view, tag);
    *response.status_mut() = status;
    response
}

/// Returns what an operator must know on every view.
fn notice(admin: &Admin) -> String {
    let context = &admin.context;
    if context.server.closing.is_cancelled() {
        "The server is shutting down.".to_owned()
    } else if let Some(stale) = admin.health.stale() {
        let age = parts::ago(stale.age());
        format!("The store is not available: the last good state is served, saved {age} ago.")
    } else if !context.cache.snapshot().is_loaded() {
        "No configuration is loaded yet: clients wait.".to_owned()
    } else if admin.health.has_ended() {
        "The store has ended: its last state stays served.".to_owned()
    } else {
        String::new()
    }
}
