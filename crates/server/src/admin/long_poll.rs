//! Long polls of pages: a client that has the current state waits for the next one.

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;

use super::state::Admin;
use crate::context::Context;
use crate::discovery::wait_preferred;

/// Returns a tag as `ETag` has it.
pub(super) fn quoted(tag: &str) -> String {
    format!("\"{tag}\"")
}

/// Returns whether to answer with the state: at once if the client has another one (`If-None-Match`), or when it
/// changes within the time that the client is willing to wait (`Prefer: wait=N`).
pub(super) async fn wait(context: &Context, headers: &HeaderMap) -> bool {
    let server = &context.server;
    let notifier = context.cache.notifier();
    let (tag, known) = (notifier.tag(), headers.get(header::IF_NONE_MATCH));
    if known.is_none_or(|known| *known != *quoted(&tag)) {
        return true;
    }
    let limit = server.limits.timers.poll_hold_max;
    let wait = wait_preferred(headers).unwrap_or_default().min(limit);
    tokio::select! {
        () = notifier.changed_from(&tag) => true,
        () = tokio::time::sleep(wait) => false,
        () = server.closing.cancelled() => true,
    }
}

/// Returns the latest view of this path and query, or makes one.
pub(super) async fn shared(
    admin: &Admin,
    uri: &Uri,
    headers: &HeaderMap,
    make: impl Future<Output = Response>,
) -> Response {
    let key = uri.path_and_query().map_or("", PathAndQuery::as_str);
    let known = headers.get(header::IF_NONE_MATCH);
    let tag = || admin.context.cache.notifier().tag();
    admin.views.get(key, known, tag, make).await
}
