//! The HTTP port: what operators and their tools look at.
//!
//! | path | says |
//! |---|---|
//! | `/metrics` | counters, for Prometheus |
//! | `/healthz` | 200 as long as the process answers |
//! | `/readyz` | 200 once there is something to serve and until a shutdown begins, else 503 |
//! | `/status.json` | clients, what they have and rejected, what is wrong with the store: see `docs/status-json.md` |
//! | `/v3/discovery:clusters`, … | REST discovery, for clients that poll |
//!
//! `/status.json` and REST discovery are on the gRPC port too, which knows its clients: over HTTP/2, and over HTTP/1.1
//! where a TLS handshake agrees to it.

mod rest;
mod status;

pub(crate) use rest::status_code;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
use prometheus_client::registry::Registry;
use tower_service::Service as _;

use crate::ads::{Context, Peer};
use crate::builder::Bound;
use crate::connection::Ports;
use crate::gate;
use crate::load::LoadReports;
use crate::metrics;
use crate::store::Health;

/// What the pages read.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) load_reports: LoadReports,
    pub(crate) registry: Registry,
}

/// Serves the HTTP port until a shutdown begins.
pub(crate) async fn serve(ports: Ports, bound: Bound, pages: Arc<Pages>) {
    let router = router(pages);
    let patience = ports.context.limits.first_request;
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

fn router(pages: Arc<Pages>) -> Router {
    let door = from_fn_with_state(Arc::clone(&pages), rest::from_anybody);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/status.json", get(status))
        .merge(rest::router(&pages).route_layer(door))
        .with_state(pages)
}

/// What the gRPC port has too: tools need one address only, and who polls can show a certificate.
pub(crate) fn beside_grpc(pages: Arc<Pages>) -> Router {
    let gate = from_fn_with_state(Arc::clone(&pages.context), gate::ask);
    Router::new()
        .route("/status.json", get(status_to_clients).layer(gate))
        .merge(rest::router(&pages))
        .with_state(pages)
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics::render(&pages.registry) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(pages): State<Arc<Pages>>) -> (StatusCode, &'static str) {
    if pages.context.closing.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if pages.context.cache.snapshot().is_loaded() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "nothing is loaded yet\n")
    }
}

/// Where clients come too, it is for those who may know what others have (S-78).
async fn status_to_clients(
    State(pages): State<Arc<Pages>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    match pages.context.may_inspect(&peer) {
        Ok(()) => status_page(&pages, &headers).await,
        Err(denied) => (StatusCode::FORBIDDEN, denied.to_string()).into_response(),
    }
}

async fn status(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    status_page(&pages, &headers).await
}

/// The status as it is, or, to who knows how it was (`If-None-Match`), as soon as it may be another within the time that
/// it wants to wait: that long for a 304.
async fn status_page(pages: &Pages, headers: &HeaderMap) -> Response {
    let (pulse, closing) = (pages.context.cache.pulse(), &pages.context.closing);
    let quoted = |tag: &str| format!("\"{tag}\"");
    let (tag, known) = (pulse.tag(), headers.get(header::IF_NONE_MATCH));
    if known.is_some_and(|known| *known == *quoted(&tag)) {
        let limit = pages.context.limits.poll_hold_max;
        let wait = wait_preferred(headers).unwrap_or_default().min(limit);
        tokio::select! {
            () = pulse.leaves(&tag) => {}
            () = tokio::time::sleep(wait) => return StatusCode::NOT_MODIFIED.into_response(),
            () = closing.cancelled() => {}
        }
    }
    // Before looking: what happens meanwhile makes it another one.
    let tag = quoted(&pulse.tag());
    ([(header::ETAG, tag)], Json(status::Status::of(pages))).into_response()
}

/// How long the client wants to wait for a change: `Prefer: wait=N`, in seconds (RFC 7240, 4.3).
fn wait_preferred(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all("prefer");
    let preferences = preferences.iter().filter_map(|value| value.to_str().ok());
    let wait = preferences
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok());
    wait.map(Duration::from_secs)
}
