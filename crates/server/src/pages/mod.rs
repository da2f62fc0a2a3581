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
//! `/status.json` is on the gRPC port too.

mod rest;
mod status;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use prometheus_client::registry::Registry;

use crate::ads::{Context, Peer};
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

pub(crate) fn router(pages: Arc<Pages>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/status.json", get(status))
        .merge(rest::router(&pages))
        .with_state(pages)
}

/// What the gRPC port shows too, so that tools need one address only.
pub(crate) fn beside_grpc(pages: Arc<Pages>) -> Router {
    Router::new()
        .route("/status.json", get(status_to_clients))
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
) -> Response {
    match pages.context.may_inspect(&peer) {
        Ok(()) => Json(status::Status::of(&pages)).into_response(),
        Err(denied) => (StatusCode::FORBIDDEN, denied.to_string()).into_response(),
    }
}

async fn status(State(pages): State<Arc<Pages>>) -> Json<status::Status> {
    Json(status::Status::of(&pages))
}
