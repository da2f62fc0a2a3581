//! Routes and handlers of the admin HTTP port.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service as _;

use super::access::{self, PageAccess};
use super::history::{HistoryPage, HistoryQuery};
use super::long_poll;
#[cfg(feature = "page")]
use super::page;
use super::runtime;
use super::state::Admin;
use super::status::{StatusPage, StatusQuery};
use crate::calls::{Peer, hooks_middleware};
use crate::discovery::{deny_without_certificate, rest_router};
use crate::metrics;
use crate::transport::{Bound, Connection, Ports};

/// Serves the HTTP port until a shutdown begins.
pub(crate) async fn serve(ports: Ports, bound: Bound, admin: Arc<Admin>) {
    let router = router(admin);
    ports
        .accept(bound, |connection, socket, address| {
            let router = router.clone();
            async move {
                #[cfg(feature = "tls")]
                if let Some(acceptor) = connection.server.http_security.acceptor() {
                    let handshake = Box::pin(connection.handshake(acceptor, socket, address));
                    if let Some(socket) = handshake.await {
                        serve_connection(&connection, socket, address, router).await;
                    }
                    return;
                }
                serve_connection(&connection, socket, address, router).await;
            }
        })
        .await;
}

/// Serves one connection to its end.
async fn serve_connection<S>(
    connection: &Connection,
    socket: S,
    address: SocketAddr,
    router: Router,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let called = connection.called();
    // This port requests no certificates, so its clients have no identity.
    let peer = Peer::new(address, None, &connection.server);
    let moving = peer.moving.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        called.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(connection.server.limits.timers.first_request);
    let served = pin!(builder.serve_connection(TokioIo::new(socket), service));
    connection
        .drive(
            served,
            http1::Connection::graceful_shutdown,
            &address,
            &moving,
        )
        .await;
}

fn router(admin: Arc<Admin>) -> Router {
    let authenticated = from_fn_with_state(Arc::clone(&admin.context), deny_without_certificate);
    let rest = rest_router(&admin.context).route_layer(authenticated);
    let admitted = from_fn_with_state(PageAccess::new(&admin.context.server), access::admit);
    let pages = Router::new();
    #[cfg(feature = "page")]
    let pages = pages.merge(page::routes());
    let pages = pages
        .route("/status.json", get(status))
        .route("/history.json", get(history))
        .route("/runtime", get(runtime_page))
        .route("/runtime_modify", post(modify_runtime))
        .route("/deprecations.json", get(deprecations))
        .route_layer(admitted);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .merge(pages)
        .with_state(admin)
        .merge(rest)
}

/// Returns the routes that the gRPC port has too: tools need only one address, and a poll client can be authenticated.
pub(crate) fn beside_grpc(admin: Arc<Admin>) -> Router {
    let hooks = from_fn_with_state(Arc::clone(&admin.context.server), hooks_middleware::run);
    let permitted = from_fn_with_state(Arc::clone(&admin.context), access::permit);
    let rest = rest_router(&admin.context);
    Router::new()
        .route("/status.json", get(status))
        .route("/history.json", get(history))
        .route("/runtime", get(runtime_page))
        .route("/deprecations.json", get(deprecations))
        .route_layer(permitted)
        .route_layer(hooks)
        .with_state(admin)
        .merge(rest)
}

async fn metrics(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    match metrics::render(&admin.registry, &headers) {
        Ok(page) => {
            let headers = [
                (header::CONTENT_TYPE, page.content_type),
                (header::VARY, "accept"),
            ];
            (headers, page.text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(admin): State<Arc<Admin>>) -> (StatusCode, String) {
    let context = &admin.context;
    let not_ready = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned());
    let connection = admin.health.connection().clone().unwrap_or_default();
    if context.server.closing.is_cancelled() {
        not_ready("shutting down\n")
    } else if !context.cache.snapshot().is_loaded() {
        not_ready("no configuration loaded yet\n")
    } else if let Some(reason) = connection.not_ready {
        not_ready(&format!("{reason}\n"))
    } else if let Some(stale) = admin.health.stale() {
        // It serves, so it is ready (G-25): without it, its clients would have nothing.
        let age = stale.age().as_secs();
        let text = format!("ok, stale: serving the last good state, saved {age} s ago\n");
        (StatusCode::OK, text)
    } else if let Some(cause) = connection.cause {
        // The store may be away for days: what is served stays right (G-24).
        (
            StatusCode::OK,
            format!("ok, not connected to the store: {cause}\n"),
        )
    } else {
        (StatusCode::OK, "ok\n".to_owned())
    }
}

async fn runtime_page(State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery) -> Response {
    runtime_response(&admin, query)
}

fn runtime_response(admin: &Admin, query: Option<String>) -> Response {
    let runtime = &admin.context.server.runtime;
    runtime::page(runtime, &query.unwrap_or_default())
}

async fn modify_runtime(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let runtime = &admin.context.server.runtime;
    runtime::modify(runtime, &peer, &headers, &query.unwrap_or_default())
}

async fn status(State(admin): State<Arc<Admin>>, uri: Uri, headers: HeaderMap) -> Response {
    status_response(&admin, &uri, &headers).await
}

/// Returns the history. It is a long poll as the status is.
async fn history(
    State(admin): State<Arc<Admin>>,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let query = match HistoryQuery::parse(query.as_deref().unwrap_or_default()) {
        Ok(query) => query,
        Err(invalid) => return (StatusCode::BAD_REQUEST, invalid.to_string()).into_response(),
    };
    if !long_poll::wait(&admin.context, &headers).await {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let make = async {
        // Before the history is read: a change in the meantime must lead to another tag.
        let cache = &admin.context.cache;
        let tag = long_poll::quoted(&cache.notifier().tag());
        let page = HistoryPage::of(cache.convergence(), &query);
        ([(header::ETAG, tag)], Json(page)).into_response()
    };
    long_poll::shared(&admin, &uri, &headers, make).await
}

async fn deprecations(State(admin): State<Arc<Admin>>) -> Response {
    Json(super::deprecations::of(&admin)).into_response()
}

/// Returns the status. A client that has the current one (`If-None-Match`) gets the next one, or 304 after the time
/// that it is willing to wait (`Prefer: wait=N`).
async fn status_response(admin: &Admin, uri: &Uri, headers: &HeaderMap) -> Response {
    let query = match StatusQuery::parse(uri.query().unwrap_or_default()) {
        Ok(query) => query,
        Err(invalid) => return (StatusCode::BAD_REQUEST, invalid.to_string()).into_response(),
    };
    if !long_poll::wait(&admin.context, headers).await {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let make = async {
        // Before the status is read: a change in the meantime must lead to another tag.
        let tag = long_poll::quoted(&admin.context.cache.notifier().tag());
        ([(header::ETAG, tag)], Json(StatusPage::of(admin, &query))).into_response()
    };
    long_poll::shared(admin, uri, headers, make).await
}
