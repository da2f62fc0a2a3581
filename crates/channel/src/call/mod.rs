//! One RPC, from the call to the head of the response.
//!
//! ```text
//!  call ─▶ configured? ─▶ route, cluster ─▶ filters ─▶ endpoint ─▶ send ─▶ head of the response
//!             │ no             ▲                        ▲  ▲ │ connecting │ failed: retry policy, or not processed
//!             └──── wait ──────┘                        │  └─┴── wait     │
//!                                                       └─────────────────┘
//! ```
//!
//! All steps run on the caller's task. All waits for the channel use the same notification ("something changed").
//! The deadline limits all waits and the wait for the response. An RPC whose deadline is over is not
//! sent. The head of a response that is not a failure ends the retries.

mod buffer;
mod filters;
mod replay;
mod response;
mod retry;

use std::error::Error as _;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::uri::{Authority, InvalidUriParts, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;
use oxds_core::resource::FilterConfig;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tonic::{Code, Status};

use self::replay::{Replay, SavedHead};
pub use self::response::ResponseBody;
use self::retry::RetryState;
use crate::attempt::{CallRecorder, Dropped, Picked, Retried, non_grpc, status};
use crate::deadline::Deadline;
use crate::endpoint::PickedConnection;
use crate::routing::{CallState, ChannelShared, RoutingDecision};
use crate::stream::{Incoming, RequestBody, SendError, StreamError};

/// Number of transparent retries per RPC after an endpoint got the request and did not process it. An
/// endpoint that shuts down causes one; the limit stops a loop with endpoints that refuse every stream.
/// Requests that never left the channel do not count (gRFC A6).
const MAX_TRANSPARENT_RETRIES: u32 = 5;

/// Extension of a request that makes its RPC wait for ready, or not, in the place of the
/// [default of the channel](crate::Builder::wait_for_ready).
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

/// Extension of a response: the number of attempts by the retry policy before the one that got this response, or whose
/// failure it is. Present if the channel was [built](crate::Builder::report_picks) to report picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreviousAttempts(pub u32);

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("grpc-rust-oxds/", env!("CARGO_PKG_VERSION")));

/// Runs one RPC. A failure becomes a response with a status. The request is taken by parts; nothing useful is left in
/// it.
pub(crate) async fn run(
    shared: &ChannelShared,
    request: &mut Request<RequestBody>,
) -> Response<ResponseBody> {
    let mut rpc = Rpc::new(shared, request);
    match rpc.run(request).await {
        Ok(answer) => rpc.respond(answer),
        Err(status) => rpc.fail(status),
    }
}

/// State of one RPC until the head of the response. The request is kept outside, and no future below takes either by
/// value: a future has room for each of its arguments twice, and every RPC allocates and fills it.
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
    transparent_retries: u32,
    /// Number of retries by the policy.
    retries: u32,
}

/// Head of the response that is passed on.
struct Answer {
    response: Response<Incoming>,
    picked: Arc<Picked>,
    /// The filters that see the head.
    filters: Option<Arc<[FilterConfig]>>,
}

/// Result of an attempt that did not end the RPC as failed.
enum Attempted {
    /// The head of the response is passed on.
    Responded(Response<Incoming>, Arc<Picked>),
    /// The request must be sent again; it is whole.
    Again,
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
            recorder: CallRecorder::begin(&shared.calls, shared.metrics.as_ref(), request),
            transparent_retries: 0,
            retries: 0,
        }
    }

    async fn run(&mut self, request: &mut Request<RequestBody>) -> Result<Answer, Status> {
        let has_own_authority = request.uri().authority().is_some();
        make_absolute(request.uri_mut(), &self.shared.authority)?;
        self.route(request).await?;
        // gRFC A81: an authority of the application takes precedence over that of the endpoint.
        self.state.rewrites_host &= !has_own_authority;
        let filters = self.state.filters.take();
        if let Some(filters) = &filters {
            // gRFC A39: filters run once per RPC, before its attempts, so that their failures are final.
            let run = pin!(filters::run(filters, request));
            let waiting = || "running the HTTP filters".to_owned();
            let session = self.until_deadline(run, waiting).await??;
            self.state.set_session(session);
        }
        let memory = self.shared.retry_memory.as_ref();
        let mut retry = RetryState::new(self.state.retry.take(), request, memory);
        loop {
            let attempted = self.attempt(request, &mut retry).await?;
            if let Attempted::Responded(response, picked) = attempted {
                retry.commit();
                return Ok(Answer {
                    response,
                    picked,
                    filters,
                });
            }
        }
    }

    /// Picks an endpoint, sends the request, and waits for the head of the response or for the end of the back-off
    /// after a failure.
    async fn attempt(
        &mut self,
        request: &mut Request<RequestBody>,
        retry: &mut RetryState,
    ) -> Result<Attempted, Status> {
        let PickedConnection {
            sender,
            guard,
            picked,
            added,
        } = self.pick(request, retry).await?;
        self.recorder.attempt(guard, &picked);
        // Saved without the headers and the authority of this attempt. gRFC A28: routes do not see the user agent of
        // the transport, also at a retry (C-226).
        let head = SavedHead::of(request);
        if !head.has_agent {
            request.headers_mut().insert(USER_AGENT, AGENT);
        }
        for (name, value) in added.iter().flat_map(|added| added.iter()) {
            request.headers_mut().append(name, value.clone());
        }
        retry.write(request.headers_mut());
        if !self.deadline.write(request.headers_mut()) {
            return Err(status::deadline_exceeded("choosing a backend"));
        }
        if self.state.rewrites_host
            && let Some(authority) = &picked.authority
        {
            set_authority(request.uri_mut(), authority)?;
        }
        let body = retry.save(request.body());
        self.recorder.send(request.body_mut());
        let result = {
            let sent = pin!(sender.send(request));
            let waiting = || format!("waiting for the response of {picked}");
            self.until_deadline(sent, waiting).await?
        };
        // gRFC A6: any head but that of a response with only trailers ends the retries.
        let is_final = |response: &Response<Incoming>| {
            let ends_retries = !retry.has_policy() || !response.body().is_end_stream();
            ends_retries && non_grpc::is_grpc(response)
        };
        match result {
            Ok(response) if is_final(&response) => Ok(Attempted::Responded(response, picked)),
            Err(SendError::Unsent(body)) => {
                self.recorder
                    .end_attempt(Code::Unavailable, Retried::Transparently);
                *request = head.into_request(body);
                Ok(Attempted::Again)
            }
            // Boxed, so that rare cases do not enlarge every RPC.
            Ok(response) => {
                let replay = body.map(|body| Replay::new(head, body));
                Box::pin(self.judge(response, picked, request, replay, retry)).await
            }
            Err(SendError::Failed(error)) => {
                let replay = body.map(|body| Replay::new(head, body));
                Box::pin(self.after_failure(&error, request, replay, retry)).await
            }
        }
    }

    /// Prepares another attempt after the transport has failed, if there may be one.
    async fn after_failure(
        &mut self,
        error: &StreamError,
        request: &mut Request<RequestBody>,
        replay: Option<Replay>,
        retry: &mut RetryState,
    ) -> Result<Attempted, Status> {
        let status = status::of_transport(error);
        let Some(replay) = replay.filter(|_| retry.can_replay()) else {
            return Err(status);
        };
        // gRFC A6, "Transparent Retries": an RPC that the server's application never saw may be
        // sent again without a retry policy.
        if !status::never_processed(error) {
            self.back_off(retry, status, None).await?;
        } else if self.transparent_retries >= MAX_TRANSPARENT_RETRIES {
            let text = "the backends keep refusing the request unprocessed";
            return Err(Status::unavailable(text));
        } else {
            self.transparent_retries += 1;
            self.recorder
                .end_attempt(status.code(), Retried::Transparently);
        }
        *request = replay.into_request();
        Ok(Attempted::Again)
    }

    /// Passes on a response, unless it is a failure that the policy retries.
    async fn judge(
        &mut self,
        response: Response<Incoming>,
        picked: Arc<Picked>,
        request: &mut Request<RequestBody>,
        replay: Option<Replay>,
        retry: &mut RetryState,
    ) -> Result<Attempted, Status> {
        if !non_grpc::is_grpc(&response) {
            self.recorder.end(None);
            let waiting = || format!("waiting for the response of {picked}");
            let status = pin!(non_grpc::status_of(response));
            let status = self.until_deadline(status, waiting).await?;
            let replay = replay.filter(|_| retry.can_replay());
            let Some(replay) = replay else {
                return Err(status);
            };
            self.back_off(retry, status, None).await?;
            *request = replay.into_request();
            return Ok(Attempted::Again);
        }
        let status = Status::from_header_map(response.headers());
        let failure = status.filter(|status| status.code() != Code::Ok);
        let (Some(failure), Some(replay)) = (failure, replay) else {
            return Ok(Attempted::Responded(response, picked));
        };
        let Some(delay) = retry.delay(&failure, Some(response.headers())) else {
            return Ok(Attempted::Responded(response, picked));
        };
        self.recorder.end(Some(response.headers()));
        drop(response);
        self.sleep(delay, &failure).await?;
        *request = replay.into_request();
        Ok(Attempted::Again)
    }

    /// Waits for the back-off after a failed attempt. Returns the failure if the policy does not retry it.
    async fn back_off(
        &mut self,
        retry: &mut RetryState,
        failure: Status,
        headers: Option<&http::HeaderMap>,
    ) -> Result<(), Status> {
        match retry.delay(&failure, headers) {
            Some(delay) => self.sleep(delay, &failure).await,
            None => Err(failure),
        }
    }

    /// Waits before the next attempt, which the failed one is not part of any more.
    async fn sleep(&mut self, delay: Duration, failure: &Status) -> Result<(), Status> {
        self.recorder.end_attempt(failure.code(), Retried::ByPolicy);
        let waiting = || format!("waiting to retry after: {}", failure.message());
        self.until_deadline(pin!(sleep(delay)), waiting).await?;
        self.retries += 1;
        Ok(())
    }

    /// Passes on the head of the response, and what the RPC needs until its end.
    fn respond(mut self, answer: Answer) -> Response<ResponseBody> {
        let (mut head, incoming) = answer.response.into_parts();
        if incoming.is_end_stream() {
            self.recorder.end(Some(&head.headers));
        }
        if let Some(filters) = &answer.filters {
            let cookie = self.state.session_cookie(&answer.picked);
            filters::respond(filters, &mut head.headers, cookie.as_ref());
        }
        let body = ResponseBody::new(incoming, self.recorder, self.timer);
        let mut response = Response::from_parts(head, body);
        if self.shared.report_picks {
            let previous = PreviousAttempts(self.retries);
            response.extensions_mut().insert(previous);
            response.extensions_mut().insert(answer.picked);
        }
        response
    }

    /// Returns the response of an RPC that fails in this channel.
    fn fail(mut self, status: Status) -> Response<ResponseBody> {
        self.recorder.fail(status.code());
        if !self.shared.report_picks {
            return status.into_http();
        }
        let dropped = status.source().and_then(|source| source.downcast_ref());
        let dropped: Option<Dropped> = dropped.cloned();
        let mut response = status.into_http();
        let extensions = response.extensions_mut();
        extensions.insert(PreviousAttempts(self.retries));
        if let Some(dropped) = dropped {
            extensions.insert(dropped);
        }
        response
    }

    /// Waits until the RPC has a route, or must fail.
    async fn route(&mut self, request: &mut Request<RequestBody>) -> Result<(), Status> {
        let shared = self.shared;
        // Most RPCs are routed at the first attempt and need no notification.
        match shared.route(request, &mut self.state) {
            Err(RoutingDecision::Wait(_)) => loop {
                // Created before the decision, so that a change between decision and wait is not missed.
                let changed = shared.changed();
                match shared.route(request, &mut self.state) {
                    Ok(()) => break,
                    Err(decision) => self.wait_or_fail(decision, pin!(changed)).await?,
                }
            },
            Err(decision) => return Err(decision.into_failure()),
            Ok(()) => {}
        }
        self.limit_deadline();
        Ok(())
    }

    /// Waits until an endpoint can take the request, or until the RPC must fail.
    ///
    /// The reference to the request is exclusive only because bodies are `Send` and not `Sync`.
    async fn pick(
        &mut self,
        request: &mut Request<RequestBody>,
        retry: &mut RetryState,
    ) -> Result<PickedConnection, Status> {
        let shared = self.shared;
        self.recorder.start_attempt(self.state.cluster());
        // Most RPCs are decided at the first attempt and need no notification. A failure must not be decided again: a
        // drop would be drawn twice.
        match self.state.decide(request) {
            RoutingDecision::Send(picked) => return Ok(picked),
            RoutingDecision::Fail(status) => return Err(status),
            RoutingDecision::Unavailable(status) => {
                self.back_off(retry, status, None).await?;
                self.recorder.start_attempt(self.state.cluster());
            }
            RoutingDecision::Wait(_) => {}
        }
        loop {
            // Created before the decision, so that a change between decision and wait is not missed.
            let changed = shared.changed();
            match self.state.decide(request) {
                RoutingDecision::Send(picked) => return Ok(picked),
                RoutingDecision::Unavailable(status) => {
                    self.back_off(retry, status, None).await?;
                    self.recorder.start_attempt(self.state.cluster());
                }
                decision => self.wait_or_fail(decision, pin!(changed)).await?,
            }
        }
    }

    /// Shortens the deadline to the limit of the route.
    fn limit_deadline(&mut self) {
        // gRFC A31: the deadline is the smaller of the application's and the route's (C-233).
        if let Some(limit) = self.state.limit {
            let started = *self.started.get_or_insert_with(Instant::now);
            self.deadline.limit(started, limit);
        }
    }

    /// Waits for a change of the channel if the decision is to wait.
    async fn wait_or_fail(
        &mut self,
        decision: RoutingDecision,
        changed: Pin<&mut Notified<'_>>,
    ) -> Result<(), Status> {
        match decision {
            RoutingDecision::Wait(reason) => {
                self.started.get_or_insert_with(Instant::now);
                self.until_deadline(changed, || reason.to_string()).await
            }
            failure => Err(failure.into_failure()),
        }
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
    *uri = Uri::from_parts(parts).map_err(|error| invalid_uri(&error))?;
    Ok(())
}

/// Replaces the authority of a URI (gRFC A81).
fn set_authority(uri: &mut Uri, authority: &Authority) -> Result<(), Status> {
    let mut parts = std::mem::take(uri).into_parts();
    parts.authority = Some(authority.clone());
    *uri = Uri::from_parts(parts).map_err(|error| invalid_uri(&error))?;
    Ok(())
}

fn invalid_uri(error: &InvalidUriParts) -> Status {
    Status::internal(format!("invalid request URI: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every RPC allocates and fills this future: what is rare must be boxed.
    #[test]
    fn future_of_an_rpc_is_at_most_1320_bytes() {
        let shared = ChannelShared::new("xds:///svc", Authority::from_static("svc"));
        let mut request = Request::new(RequestBody::empty());
        let rpc = run(&shared, &mut request);
        assert!(size_of_val(&rpc) <= 1320, "{}", size_of_val(&rpc));
    }
}
