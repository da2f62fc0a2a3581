//! One RPC, from the call to the head of the answer.
//!
//! ```text
//!  call ─▶ configured? ─▶ route, cluster ─▶ endpoint ─▶ send ─▶ head of the answer
//!             │ no             ▲  ▲             │ connecting │ the endpoint never saw it
//!             └──── wait ──────┘  └──── wait ───┘            │
//!                                 ▲                          │
//!                                 └──────────────────────────┘
//! ```
//!
//! All of it happens on the caller's task. Both waits are for the same notification ("something
//! changed"), and like the wait for the answer they are under the deadline.

use std::future::Future;
use std::pin::{Pin, pin};

use http::header::USER_AGENT;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::body::{Replay, RequestBody, ResponseBody};
use crate::count::Counted;
use crate::deadline::Deadline;
use crate::picker::Ticket;
use crate::routing::{Memo, Shared, Step};
use crate::status;

/// How often the endpoints may turn one request away unprocessed. An endpoint that is shutting down
/// does so once; the limit is against one that does nothing else.
const MAX_REFUSALS: u32 = 5;

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("grpc-rust-oxds/", env!("CARGO_PKG_VERSION")));

/// Carries out one RPC. A failure is an answer with a status, too.
pub(crate) async fn run(shared: &Shared, request: Request<RequestBody>) -> Response<ResponseBody> {
    let answer = Call::new(shared, &request).carry_out(request).await;
    answer.unwrap_or_else(Status::into_http)
}

/// What an RPC keeps while it waits. The request stands beside it, and moves as seldom as it can.
struct Call<'a> {
    shared: &'a Shared,
    memo: Memo,
    /// The clock is read only for RPCs that wait or are limited by their route.
    started: Option<Instant>,
    deadline: Deadline,
    /// Made at the first wait; goes along with the response.
    timer: Option<Pin<Box<Sleep>>>,
    /// Goes along with the response, too.
    counted: Counted,
}

impl<'a> Call<'a> {
    fn new(shared: &'a Shared, request: &Request<RequestBody>) -> Self {
        Self {
            shared,
            deadline: Deadline::of_request(request.headers()),
            memo: Memo::default(),
            started: None,
            timer: None,
            counted: Counted::begin(&shared.calls),
        }
    }

    async fn carry_out(
        mut self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Status> {
        absolute(request.uri_mut(), &self.shared.authority)?;
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        for _ in 0..=MAX_REFUSALS {
            let mut ticket = self.ticket(&mut request).await?;
            self.counted.go(ticket.in_flight, ticket.load);
            self.deadline.write(request.headers_mut());
            let replay = Replay::of(&request);
            let sent = pin!(ticket.sender.try_send_request(request));
            let waiting = || format!("waiting for the answer of {}", ticket.picked);
            request = match self.bound(sent, waiting).await? {
                Ok(response) => {
                    let (head, incoming) = response.into_parts();
                    if incoming.is_end_stream() {
                        self.counted.end(Some(&head.headers));
                    }
                    let body = ResponseBody::new(incoming, self.counted, self.timer);
                    let mut response = Response::from_parts(head, body);
                    if self.shared.report_picks {
                        response.extensions_mut().insert(ticket.picked);
                    }
                    return Ok(response);
                }
                Err(error) => unsent(error, replay)?,
            };
        }
        Err(Status::unavailable(
            "the backends keep refusing the request unprocessed",
        ))
    }

    /// Waits until an endpoint can take the request, or it is clear that none will.
    ///
    /// The request is exclusive only because bodies are `Send` and not `Sync`.
    async fn ticket(&mut self, request: &mut Request<RequestBody>) -> Result<Ticket, Status> {
        let shared = self.shared;
        // Most RPCs need one look, and nothing to wait with.
        match self.step(request) {
            Step::Go(ticket) => return Ok(ticket),
            Step::Fail(status) => return Err(status),
            Step::Wait(_) => {}
        }
        loop {
            // Made before the look, so that a change between look and wait is not missed.
            let changed = shared.changed();
            match self.step(request) {
                Step::Go(ticket) => return Ok(ticket),
                Step::Fail(status) => return Err(status),
                Step::Wait(what) => {
                    self.started.get_or_insert_with(Instant::now);
                    self.bound(pin!(changed), || what.to_string()).await?;
                }
            }
        }
    }

    fn step(&mut self, request: &Request<RequestBody>) -> Step {
        let step = self.shared.step(request, &mut self.memo);
        if let Some(limit) = self.memo.limit {
            let started = *self.started.get_or_insert_with(Instant::now);
            self.deadline.limit(started, limit);
        }
        step
    }

    /// Waits for `future`, but not beyond the deadline, which would be `what`'s fault.
    async fn bound<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        what: impl FnOnce() -> String,
    ) -> Result<F::Output, Status> {
        let Some(end) = self.deadline.instant() else {
            return Ok(future.await);
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = timer.as_mut() => Err(status::deadline_exceeded(&what())),
        }
    }
}

/// The target's authority, unless the caller set one.
fn absolute(uri: &mut Uri, authority: &Authority) -> Result<(), Status> {
    if uri.scheme().is_some() && uri.authority().is_some() {
        return Ok(());
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme.get_or_insert(Scheme::HTTP);
    parts.authority.get_or_insert_with(|| authority.clone());
    *uri = Uri::from_parts(parts)
        .map_err(|error| Status::internal(format!("request URI: {error}")))?;
    Ok(())
}

/// The request again, if the endpoint certainly did not see it.
fn unsent(
    mut error: TrySendError<Request<RequestBody>>,
    replay: Option<Replay>,
) -> Result<Request<RequestBody>, Status> {
    // hyper hands back what it did not send.
    if let Some(request) = error.take_message() {
        return Ok(request);
    }
    let error = error.into_error();
    match replay {
        Some(replay) if status::never_processed(&error) => Ok(replay.into_request()),
        _ => Err(status::of_transport(&error)),
    }
}
