//! Routes and handlers of the admin HTTP port.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tower_service::Service as _;

use super::state::Admin;
use super::status::Status;
use crate::discovery::{deny_without_certificate, rest_router, wait_preferred};
use crate::hooks::middleware;
use crate::metrics;
use crate::server::{Bound, Peer, Ports};

/// Serves the HTTP port until a shutdown begins.
pub(crate) async fn serve(ports: Ports, bound: Bound, admin: Arc<Admin>) {
    let router = router(admin);
    let patience = ports.server.limits.first_request;
    ports
        .accept(bound, |connection, socket, address| {
            let (router, called) = (router.clone(), connection.called());
            let service = service_fn(move |mut request: Request<Incoming>| {
                called.store(true, Ordering::Relaxed);
                request.extensions_mut().insert(ConnectInfo(address));
                router.clone().call(request)
            });
            async move {
                let mut builder = http1::Builder::new();
                builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(patience);
                let served = pin!(builder.serve_connection(TokioIo::new(socket), service));
                connection
                    .drive(served, http1::Connection::graceful_shutdown, &address)
                    .await;
            }
        })
        .await;
}

fn router(admin: Arc<Admin>) -> Router {
    let door = from_fn_with_state(Arc::clone(&admin.context), deny_without_certificate);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/status.json", get(status))
        .with_state(Arc::clone(&admin))
        .merge(rest_router(&admin.context).route_layer(door))
}

/// What the gRPC port has too: tools need one address only, and who polls can show a certificate.
pub(crate) fn beside_grpc(admin: Arc<Admin>) -> Router {
    let hooks = from_fn_with_state(Arc::clone(&admin.context.server), middleware::run);
    Router::new()
        .route("/status.json", get(status_to_clients).layer(hooks))
        .with_state(Arc::clone(&admin))
        .merge(rest_router(&admin.context))
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics::render(&admin.registry) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(admin): State<Arc<Admin>>) -> (StatusCode, &'static str) {
    if admin.context.server.closing.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if admin.context.cache.snapshot().is_loaded() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "nothing is loaded yet\n")
    }
}

/// Where clients come too, it is for those who may know what others have (S-78).
async fn status_to_clients(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    match admin.context.may_inspect(&peer) {
        Ok(()) => status_page(&admin, &headers).await,
        Err(denied) => (StatusCode::FORBIDDEN, denied.to_string()).into_response(),
    }
}

async fn status(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    status_page(&admin, &headers).await
}

/// The status as it is, or, to who knows how it was (`If-None-Match`), as soon as it may be another within the time that
/// it wants to wait: that long for a 304.
async fn status_page(admin: &Admin, headers: &HeaderMap) -> Response {
    let (notifier, closing) = (
        admin.context.cache.notifier(),
        &admin.context.server.closing,
    );
    let quoted = |tag: &str| format!("\"{tag}\"");
    let (tag, known) = (notifier.tag(), headers.get(header::IF_NONE_MATCH));
    if known.is_some_and(|known| *known == *quoted(&tag)) {
        let limit = admin.context.server.limits.poll_hold_max;
        let wait = wait_preferred(headers).unwrap_or_default().min(limit);
        tokio::select! {
            () = notifier.changed_from(&tag) => {}
            () = tokio::time::sleep(wait) => return StatusCode::NOT_MODIFIED.into_response(),
            () = closing.cancelled() => {}
        }
    }
    // Before looking: what happens meanwhile makes it another one.
    let tag = quoted(&notifier.tag());
    ([(header::ETAG, tag)], Json(Status::of(admin))).into_response()
}
