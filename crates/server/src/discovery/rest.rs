//! REST discovery: a `DiscoveryRequest` in JSON is posted, a `DiscoveryResponse` comes back (S-56).
//!
//! | answer | when |
//! |---|---|
//! | 200 | the client has another version than the one it says |
//! | 304 | it has it, and nothing changed while it waited: 0.8 s, or as long as its `Prefer: wait=N` says |
//! | 400 | the body is no request, or one for another kind |
//! | 403 | on the HTTP port: clients are told apart by certificates, which only the gRPC port asks for (S-78) |
//! | 401, 403 | on the gRPC port: the client's certificate does not fit its node |
//! | 404 | nothing is loaded yet, or the path is unknown |
//! | 405 | the method is not POST |
//! | 401, 403, 429, … | the program's hooks refuse it, with the code that stands for theirs |
//! | 408 | the body does not come in time |
//! | 413 | the body, or what it asks for, is beyond the limits |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use oxds_types::codec::{request_from_json, response_to_json};
use oxds_types::{ApiVersion, ResourceType};
use tonic::Status;

use super::clients::Via;
use super::context::Context;
use super::error::{CallError, http_status};
use super::poll::{Fetched, Refused, fetch};
use crate::hooks::{Call, Observed};
use crate::server::Peer;

/// A path for every kind and version of the API that has one. Whoever passes requests on puts the [`Peer`] into their
/// extensions.
pub(crate) fn router(context: &Arc<Context>) -> Router {
    let versions = [ApiVersion::V3, ApiVersion::V2].into_iter();
    let paths = versions.flat_map(|api| {
        ResourceType::known().filter_map(move |resource_type| {
            let path = resource_type.service(api)?.rest?;
            Some((path, resource_type, api))
        })
    });
    let router = paths.fold(Router::new(), |router, (path, resource_type, api)| {
        let poll = move |State(context): State<Arc<Context>>,
                         Extension(peer): Extension<Peer>,
                         request: Request| async move {
            let headers = request.headers().clone();
            let body = match body(&context, request).await {
                Ok(body) => body,
                Err(refused) => return refused,
            };
            let call = Call {
                method: path.to_owned(),
                peer: peer.address,
                headers,
                identity: peer.names(),
            };
            poll(&context, (&resource_type, api), &peer, call, &body).await
        };
        router.route(path, post(poll))
    });
    let limit = context.server.limits.message_bytes;
    router
        .layer(DefaultBodyLimit::max(limit))
        .with_state(Arc::clone(context))
}

/// What is posted, if it comes in time.
async fn body(context: &Context, request: Request) -> Result<Bytes, Response> {
    let patience = context.server.limits.first_request;
    let body = tokio::time::timeout(patience, Bytes::from_request(request, &())).await;
    let body = body.map_err(|_| {
        context.server.metrics.refused("first_request");
        (StatusCode::REQUEST_TIMEOUT, "no request came").into_response()
    })?;
    body.map_err(IntoResponse::into_response)
}

/// Takes polls in on the HTTP port, which asks nobody for a certificate: where clients are told apart by theirs, it
/// turns them away (S-78).
pub(crate) async fn deny_without_certificate(
    State(context): State<Arc<Context>>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    if context.server.security.tells_clients_apart() {
        context.server.metrics.refused("authorization");
        let text =
            "clients are told apart by certificates here: poll the gRPC port, which asks for one";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    request.extensions_mut().insert(Peer {
        address,
        identity: None,
    });
    next.run(request).await
}

/// An error, in the words of HTTP and in those of hooks.
type Problem = (StatusCode, Status);

async fn poll(
    context: &Context,
    served: (&ResourceType, ApiVersion),
    peer: &Peer,
    call: Call,
    body: &[u8],
) -> Response {
    let limits = &context.server.limits;
    let hold = wait_preferred(&call.headers).unwrap_or(limits.poll_hold);
    let hold = hold.min(limits.poll_hold_max);
    let answered = match Observed::open(context.server.hooks.as_deref(), || call).await {
        Ok(mut observed) => {
            let answered = answer(context, served, peer, &mut observed, body, hold).await;
            let status = answered.as_ref().err().map(|(_, status)| status);
            observed.close(status.unwrap_or(&Status::ok("")));
            answered
        }
        Err(refused) => Err(by_hook(context, refused)),
    };
    answered.unwrap_or_else(|(code, status)| (code, status.message().to_owned()).into_response())
}

async fn answer(
    context: &Context,
    served: (&ResourceType, ApiVersion),
    peer: &Peer,
    observed: &mut Observed,
    body: &[u8],
    hold: Duration,
) -> Result<Response, Problem> {
    let by_hook = |refused| by_hook(context, refused);
    let request = request_from_json(body).map_err(|error| {
        let status = Status::invalid_argument(error.to_string());
        (StatusCode::BAD_REQUEST, status)
    })?;
    context.server.metrics.request();
    let request = observed.ask(served, request).await.map_err(by_hook)?;
    let refused = |refusal: CallError| by_refusal(context, &refusal);
    let (question, grant) = context
        .question(peer, Via::Rest, served, request)
        .map_err(refused)?;
    let (resource_type, _) = served;
    let fetched = fetch(context, &question, hold).await;
    let confirmed = context.confirm(peer, &question, &grant);
    confirmed.map_err(|denied| refused(denied.into()))?;
    match fetched {
        Fetched::Response(response) => {
            observed
                .fetched(resource_type, &response)
                .map_err(by_hook)?;
            let json = response_to_json(&response).map_err(|error| {
                tracing::error!(%resource_type, %error, "a response cannot be written as JSON");
                let status = Status::internal(error.to_string());
                (StatusCode::INTERNAL_SERVER_ERROR, status)
            })?;
            Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
        }
        Fetched::NotModified => Ok(StatusCode::NOT_MODIFIED.into_response()),
        Fetched::NotLoaded => {
            let status = Status::unavailable("nothing is loaded yet");
            Err((StatusCode::NOT_FOUND, status))
        }
    }
}

fn by_hook(context: &Context, refused: Status) -> Problem {
    context.server.metrics.refused("program");
    (http_status(refused.code()), refused)
}

fn by_refusal(context: &Context, refusal: &CallError) -> Problem {
    let told = refusal.status(&context.server.metrics);
    let code = match refusal {
        CallError::Question(Refused::TooManyNames(_) | Refused::NameTooLong(_)) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        _ => http_status(told.code()),
    };
    (code, told)
}

/// Returns the time that a client is willing to wait for a change: `Prefer: wait=N`, in seconds (RFC 7240, section 4.3).
pub(crate) fn wait_preferred(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all("prefer");
    let preferences = preferences.iter().filter_map(|value| value.to_str().ok());
    let wait = preferences
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok());
    wait.map(Duration::from_secs)
}
