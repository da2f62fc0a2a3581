//! REST discovery: a `DiscoveryRequest` in JSON is posted, a `DiscoveryResponse` comes back (S-56).
//!
//! | answer | when |
//! |---|---|
//! | 200 | the client has another version than the one it says |
//! | 304 | it has it, and nothing changed while it waited: 0.8 s, or as long as its `Prefer: wait=N` says |
//! | 400 | the body is no request, or one for another kind |
//! | 403 | clients are bound to their identities, which this port does not know (S-78) |
//! | 404 | nothing is loaded yet, or the path is unknown |
//! | 405 | the method is not POST |
//! | 413 | the body, or what it asks for, is beyond the limits |

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use oxds_types::codec::{request_from_json, response_to_json};
use oxds_types::{ApiVersion, Kind};

use super::Pages;
use crate::clients::Via;
use crate::fetch::{Fetched, Question, Refused, fetch};
use crate::limits::Limits;

/// A path for every kind that has one.
pub(super) fn router(pages: &Arc<Pages>) -> Router<Arc<Pages>> {
    let paths = Kind::known().filter_map(|kind| {
        let path = kind.service(ApiVersion::V3)?.rest?;
        Some((path, kind))
    });
    let router = paths.fold(Router::new(), |router, (path, kind)| {
        let poll = move |State(pages): State<Arc<Pages>>, headers: HeaderMap, body: Bytes| async move {
            poll(&pages, &kind, &headers, &body).await
        };
        router.route(path, post(poll))
    });
    let limit = pages.context.limits.message_bytes;
    router.layer(DefaultBodyLimit::max(limit))
}

async fn poll(pages: &Pages, kind: &Kind, headers: &HeaderMap, body: &[u8]) -> Response {
    let context = &pages.context;
    if context.security.is_authorizing() {
        context.metrics.refused("authorization");
        let text = "clients are told apart by certificates here, and this port asks for none";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let request = match request_from_json(body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    context.metrics.request();
    let question = match Question::new(Via::Rest, kind, ApiVersion::V3, request, &context.config) {
        Ok(question) => question,
        Err(refused) => return (status(&refused), refused.to_string()).into_response(),
    };
    match fetch(context, &question, hold(headers, &context.limits)).await {
        Fetched::Response(response) => match response_to_json(&response) {
            Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            Err(error) => {
                tracing::error!(%kind, %error, "a response cannot be written as JSON");
                (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
            }
        },
        Fetched::NotModified => StatusCode::NOT_MODIFIED.into_response(),
        Fetched::NotLoaded => (StatusCode::NOT_FOUND, "nothing is loaded yet").into_response(),
    }
}

fn status(refused: &Refused) -> StatusCode {
    match refused {
        Refused::WrongKind { .. } => StatusCode::BAD_REQUEST,
        Refused::TooManyNames(_) | Refused::NameTooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
    }
}

/// How long the client wants to wait for a change: `Prefer: wait=N`, in seconds (RFC 7240, 4.3).
fn hold(headers: &HeaderMap, limits: &Limits) -> Duration {
    let preferences = headers.get_all("prefer");
    let preferences = preferences.iter().filter_map(|value| value.to_str().ok());
    preferences
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok())
        .map_or(limits.poll_hold, Duration::from_secs)
        .min(limits.poll_hold_max)
}
