//! One RPC, from the call to the head of the response.
//!
//! ```text
//!  call ─▶ configured? ─▶ route, cluster ─▶ endpoint ─▶ send ─▶ head of the response
//!             │ no             ▲  ▲             │ connecting │ the endpoint did not process it
//!             └──── wait ──────┘  └──── wait ───┘            │
//!                                 ▲                          │
//!                                 └──────────────────────────┘
//! ```
//!
//! All steps run on the caller's task. Both waits use the same notification ("something changed").
//! The deadline limits both waits and the wait for the response. An RPC whose deadline is over is not
//! sent.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use http::header::USER_AGENT;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use oxds_client::transport::SendError;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::body::{Replay, RequestBody, ResponseBody};
use crate::count::CallRecorder;
use crate::deadline::Deadline;
use crate::endpoint::Picked;
use crate::foreign;
use crate::picker::PickedConnection;
use crate::routing::{CallState, ChannelShared, RoutingDecision};
use crate::status;

/// Number of transparent retries per RPC after an endpoint got the request and did not process it. An
/// endpoint that shuts down causes one; the limit stops a loop with endpoints that refuse every stream.
/// Requests that never left the channel do not count (gRFC A6).
const MAX_TRANSPARENT_RETRIES: u32 = 5;

/// Extension of a request that makes its RPC wait for ready, or not, whatever the
/// [default of the channel](crate::Builder::wait_for_ready) is.
///
/// A wait-for-ready RPC is not failed by an unreachable control plane, missing or invalid resources, or
/// unreachable endpoints: it waits until it can be sent, or until its deadline. It has no other time
/// limit. It still fails if no route matches it, if it is dropped, and after it was sent (gRPC, "Wait for
/// Ready Semantics").
///
/// ```
/// use oxds_channel::WaitForReady;
///
/// let mut request = tonic::Request::new(());
/// request.extensions_mut().insert(WaitForReady(true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitForReady(pub bool);

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("grpc-rust-oxds/", env!("CARGO_PKG_VERSION")));

/// Runs one RPC. A failure becomes a response with a status.
pub(crate) async fn run(
    shared: &ChannelShared,
    request: Request<RequestBody>,
) -> Response<ResponseBody> {
    let response = Rpc::new(shared, &request).run(request).await;
    response.unwrap_or_else(Status::into_http)
}

/// State of one RPC until the head of the response. The request is kept outside, because it is large
/// and is moved as seldom as possible.
struct Rpc<'a> {
    shared: &'a ChannelShared,
    state: CallState,
    /// Set only for RPCs that wait or have a limit from their route: others do not read the clock.
    started: Option<Instant>,
    deadline: Deadline,
    /// Created at the first wait; moves into the response body.
    timer: Option<Pin<Box<Sleep>>>,
    /// Moves into the response body.
    recorder: CallRecorder,
}

impl<'a> Rpc<'a> {
    fn new(shared: &'a ChannelShared, request: &Request<RequestBody>) -> Self {
        let own = request.extensions().get::<WaitForReady>();
        let wait_for_ready = own.map(|&WaitForReady(wait)| wait);
        Self {
            shared,
            deadline: Deadline::of_request(request.headers()),
            state: CallState::new(wait_for_ready.unwrap_or(shared.wait_for_ready)),
            started: None,
            timer: None,
            recorder: CallRecorder::begin(&shared.calls),
        }
    }

    async fn run(
        mut self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Status> {
        make_absolute(request.uri_mut(), &self.shared.authority)?;
        let adds_agent = !request.headers().contains_key(USER_AGENT);
        let mut retries = 0;
        while retries <= MAX_TRANSPARENT_RETRIES {
            let picked = self.pick(&mut request).await?;
            if adds_agent {
                request.headers_mut().insert(USER_AGENT, AGENT);
            }
            self.recorder.attempt(picked.guard);
            if !self.deadline.write(request.headers_mut()) {
                return Err(status::deadline_exceeded("choosing a backend"));
            }
            let replay = Replay::of(&request);
            let sent = pin!(picked.sender.send(request));
            let waiting = || format!("waiting for the response of {}", picked.picked);
            request = match self.until_deadline(sent, waiting).await? {
                Ok(response) => return self.respond(response, picked.picked).await,
                Err(SendError::Unsent(request)) => *request,
                Err(SendError::Failed(error)) => {
                    retries += 1;
                    replayed(&error, replay)?
                }
            };
            if adds_agent {
                // gRFC A28: routes do not see the user agent of the transport, also at a retry (C-226).
                request.headers_mut().remove(USER_AGENT);
            }
        }
        Err(Status::unavailable(
            "the backends keep refusing the request unprocessed",
        ))
    }

    /// Passes on the head of the response, and what the RPC needs until its end.
    async fn respond(
        mut self,
        response: Response<Incoming>,
        picked: Arc<Picked>,
    ) -> Result<Response<ResponseBody>, Status> {
        if !foreign::is_grpc(&response) {
            self.recorder.end(None);
            let waiting = || format!("waiting for the response of {picked}");
            return Err(self
                .until_deadline(pin!(foreign::status_of(response)), waiting)
                .await?);
        }
        let (head, incoming) = response.into_parts();
        if incoming.is_end_stream() {
            self.recorder.end(Some(&head.headers));
        }
        let body = ResponseBody::new(incoming, self.recorder, self.timer);
        let mut response = Response::from_parts(head, body);
        if self.shared.report_picks {
            response.extensions_mut().insert(picked);
        }
        Ok(response)
    }

    /// Waits until an endpoint can take the request, or until the RPC must fail.
    ///
    /// The reference to the request is exclusive only because bodies are `Send` and not `Sync`.
    async fn pick(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Result<PickedConnection, Status> {
        let shared = self.shared;
        // Most RPCs are decided at the first attempt and need no notification.
        match self.decide(request) {
            RoutingDecision::Send(picked) => return Ok(picked),
            RoutingDecision::Fail(status) => return Err(status),
            RoutingDecision::Wait(_) => {}
        }
        loop {
            // Created before the decision, so that a change between decision and wait is not missed.
            let changed = shared.changed();
            match self.decide(request) {
                RoutingDecision::Send(picked) => return Ok(picked),
                RoutingDecision::Fail(status) => return Err(status),
                RoutingDecision::Wait(reason) => {
                    self.started.get_or_insert_with(Instant::now);
                    self.until_deadline(pin!(changed), || reason.to_string())
                        .await?;
                }
            }
        }
    }

    fn decide(&mut self, request: &Request<RequestBody>) -> RoutingDecision {
        let decision = self.shared.decide(request, &mut self.state);
        // gRFC A31: the deadline is the smaller of the application's and the route's (C-233).
        if let Some(limit) = self.state.limit {
            let started = *self.started.get_or_insert_with(Instant::now);
            self.deadline.limit(started, limit);
        }
        decision
    }

    /// Waits for `future` until the deadline. The error names the wait with the text of `waiting`.
    async fn until_deadline<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        waiting: impl FnOnce() -> String,
    ) -> Result<F::Output, Status> {
        let Some(end) = self.deadline.instant() else {
            return Ok(future.await);
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        tokio::select! {
            // A result that is ready at the deadline still counts.
            biased;
            output = future => Ok(output),
            () = timer.as_mut() => Err(status::deadline_exceeded(&waiting())),
        }
    }
}

/// Adds scheme and authority to a URI without them. An authority of the caller stays.
fn make_absolute(uri: &mut Uri, authority: &Authority) -> Result<(), Status> {
    if uri.scheme().is_some() && uri.authority().is_some() {
        return Ok(());
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme.get_or_insert(Scheme::HTTP);
    parts.authority.get_or_insert_with(|| authority.clone());
    *uri = Uri::from_parts(parts)
        .map_err(|error| Status::internal(format!("invalid request URI: {error}")))?;
    Ok(())
}

/// Returns the request for another attempt, if the endpoint certainly did not process it.
fn replayed(error: &hyper::Error, replay: Option<Replay>) -> Result<Request<RequestBody>, Status> {
    match replay {
        // gRFC A6, "Transparent Retries": an RPC that the server's application never saw may be
        // sent again without a retry policy.
        Some(replay) if status::never_processed(error) => Ok(replay.into_request()),
        _ => Err(status::of_transport(error)),
    }
}
