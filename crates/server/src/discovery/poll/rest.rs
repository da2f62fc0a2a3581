//! REST discovery: the client posts a `DiscoveryRequest` as JSON, and gets a `DiscoveryResponse` (S-56).
//!
//! | status | condition |
//! |---|---|
//! | 200 | the client has another version than the current one, and has not rejected that (S-80) |
//! | 304 | no change in 0.8 s or `Prefer: wait=N`: the client has, or rejected, the current version |
//! | 400 | the body is not a valid request, or asks for another resource type |
//! | 403 | HTTP port: the server identifies clients by certificates, which only the gRPC port requests (S-78) |
//! | 401, 403 | gRPC port: the certificate does not allow this node |
//! | 404 | no configuration is loaded yet, or the path is unknown |
//! | 405 | the method is not POST |
//! | 401, 403, 429, … | a hook of the program denies the request; the status is that of its gRPC code |
//! | 408 | the body does not arrive in time |
//! | 413 | the body, or the subscription in it, exceeds the limits |

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use futures_util::StreamExt as _;
use oxds_core::session::StreamError;
use oxds_types::codec::{request_from_json, response_to_json};
use oxds_types::discovery::DiscoveryRequest;
use oxds_types::{ApiVersion, ResourceType};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::wait::{self, Polled};
use crate::calls::{CallError, Limits, MemoryShare, MemoryUse, Peer, cost, http_status};
use crate::clients::PollKind;
use crate::context::Context;
use crate::hooks::{Call, CallObserver};
use crate::metrics::DeniedBy;

/// Returns a route for every resource type and API version with a REST path. Requests need a [`Peer`] extension.
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
            let end = CancellationToken::new();
            let mut share = peer.budgets.share(end.clone());
            let body = match body(&context, &mut share, &end, request).await {
                Ok(body) => body,
                Err(response) => return response,
            };
            let call = Call {
                method: path.to_owned(),
                peer: peer.address,
                headers,
                identity: peer.names(),
            };
            let polling = RestPoll {
                served: (&resource_type, api),
                peer: &peer,
                share: &mut share,
                body,
            };
            polling.run(&context, call).await
        };
        router.route(path, post(poll))
    });
    router.with_state(Arc::clone(context))
}

/// Returns the body of a request. The share then has what it takes to read it.
///
/// # Errors
/// The response, if the body is too long, takes too much memory or does not arrive in time.
async fn body(
    context: &Context,
    share: &mut MemoryShare,
    end: &CancellationToken,
    request: Request,
) -> Result<Vec<u8>, Response> {
    let limits = &context.server.limits;
    let collected =
        tokio::time::timeout(limits.timers.first_request, collect(share, limits, request));
    let collected = tokio::select! {
        collected = collected => Some(collected.unwrap_or(Err(CallError::NoRequest))),
        () = end.cancelled() => None,
    };
    // Ended because another call needed the memory.
    let collected = collected.unwrap_or_else(|| {
        let over = share.ended().map(CallError::OverBudget);
        Err(over.unwrap_or(CallError::NoRequest))
    });
    let read = collected.and_then(|body| {
        share.set(
            MemoryUse::Request,
            body.len() + cost::of_json(&body, limits)?,
        )?;
        Ok(body)
    });
    read.map_err(|error| {
        let (code, status) = http_error(context, &error);
        (code, status.message().to_owned()).into_response()
    })
}

/// Collects a body, and counts its bytes as they arrive.
async fn collect(
    share: &mut MemoryShare,
    limits: &Limits,
    request: Request,
) -> Result<Vec<u8>, CallError> {
    let (limit, mut collected) = (limits.message_bytes, Vec::new());
    let mut body = request.into_body().into_data_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|_| CallError::Truncated)?;
        let length = collected.len() + chunk.len();
        if length > limit {
            return Err(CallError::MessageTooLong { length, limit });
        }
        collected.extend_from_slice(&chunk);
        share.set(MemoryUse::Request, collected.capacity())?;
    }
    Ok(collected)
}

/// Middleware of the HTTP port, which requests no certificates: denies polls if the server identifies clients by
/// certificates (S-78).
pub(crate) async fn deny_without_certificate(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    if context.server.security.tells_clients_apart() {
        context.server.metrics.denied(DeniedBy::Authorization);
        let text = "client certificate required: poll the gRPC port instead of the HTTP port";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

/// An error as HTTP status for the client, and as gRPC status for the hooks.
type HttpError = (StatusCode, Status);

/// One poll, with its body and what it keeps.
struct RestPoll<'a> {
    served: (&'a ResourceType, ApiVersion),
    peer: &'a Peer,
    share: &'a mut MemoryShare,
    body: Vec<u8>,
}

impl RestPoll<'_> {
    async fn run(mut self, context: &Context, call: Call) -> Response {
        let limits = &context.server.limits;
        let hold = wait_preferred(&call.headers).unwrap_or(limits.timers.poll_hold);
        let hold = hold.min(limits.timers.poll_hold_max);
        let answered = match CallObserver::open(context.server.hooks.as_deref(), || call).await {
            Ok(mut observer) => {
                let answered = self.answer(context, &mut observer, hold).await;
                let status = answered.as_ref().err().map(|(_, status)| status);
                observer.close(status.unwrap_or(&Status::ok("")));
                answered
            }
            Err(denied) => Err(denied_by_hook(context, denied)),
        };
        answered
            .unwrap_or_else(|(code, status)| (code, status.message().to_owned()).into_response())
    }

    async fn answer(
        &mut self,
        context: &Context,
        observer: &mut CallObserver,
        hold: Duration,
    ) -> Result<Response, HttpError> {
        let (served, peer) = (self.served, self.peer);
        let by_hook = |denied| denied_by_hook(context, denied);
        let by_error = |error: CallError| http_error(context, &error);
        let message = request_from_json(&self.body).map_err(|error| {
            let status = Status::invalid_argument(error.to_string());
            (StatusCode::BAD_REQUEST, status)
        })?;
        context.server.metrics.request();
        self.keep(&message, &context.server.limits)
            .map_err(by_error)?;
        let message = observer
            .single_request(served, message)
            .await
            .map_err(by_hook)?;
        let (request, grant) = context
            .fetch_request(peer, PollKind::Rest, served, message)
            .map_err(by_error)?;
        let (resource_type, _) = served;
        let polled = wait::poll(context, &request, hold)
            .await
            .map_err(by_error)?;
        let confirmed = context.confirm(peer, &request, &grant);
        confirmed.map_err(|denied| by_error(denied.into()))?;
        match polled {
            Polled::Response(response) => {
                observer
                    .single_response(resource_type, &response)
                    .map_err(by_hook)?;
                let json = response_to_json(&response).map_err(|error| {
                    tracing::error!(%resource_type, %error, "response not representable as JSON");
                    let status = Status::internal(error.to_string());
                    (StatusCode::INTERNAL_SERVER_ERROR, status)
                })?;
                Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
            }
            Polled::NotModified(_) => Ok(StatusCode::NOT_MODIFIED.into_response()),
            Polled::NotLoaded => {
                let status = Status::unavailable("no configuration loaded yet");
                Err((StatusCode::NOT_FOUND, status))
            }
        }
    }

    /// Counts what the poll keeps while it waits, in place of its body.
    fn keep(&mut self, message: &DiscoveryRequest, limits: &Limits) -> Result<(), CallError> {
        self.body = Vec::new();
        if let Some(node) = &message.node {
            self.share
                .set(MemoryUse::Node, cost::of_node(node, limits)?)?;
        }
        self.share
            .set(MemoryUse::Names, cost::of_names(&message.resource_names))?;
        self.share.set(MemoryUse::Request, 0)?;
        Ok(())
    }
}

fn denied_by_hook(context: &Context, denied: Status) -> HttpError {
    context.server.metrics.denied(DeniedBy::Hook);
    (http_status(denied.code()), denied)
}

fn http_error(context: &Context, error: &CallError) -> HttpError {
    let status = error.status(&context.server.metrics);
    let code = match error {
        // RFC 9110, section 15.5.14: the content is larger than the server is willing to process.
        CallError::MessageTooLong { .. }
        | CallError::NodeTooLong { .. }
        | CallError::NodeIdTooLong { .. }
        | CallError::Stream(StreamError::TooManyNames { .. } | StreamError::NameTooLong { .. }) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        CallError::NoRequest => StatusCode::REQUEST_TIMEOUT,
        _ => http_status(status.code()),
    };
    (code, status)
}

/// Returns the time that a client is willing to wait for a change: `Prefer: wait=N`, in seconds (RFC 7240, section
/// 4.3).
pub(crate) fn wait_preferred(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all("prefer");
    let preferences = preferences.iter().filter_map(|value| value.to_str().ok());
    let wait = preferences
        .flat_map(|value| value.split(','))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok());
    wait.map(Duration::from_secs)
}
