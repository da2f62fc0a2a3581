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
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::body::{RequestBody, ResponseBody};
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
///
/// The body is taken before, outside the future: what a future holds, it moves when it is boxed.
pub(crate) async fn run(
    shared: &Shared,
    head: Parts,
    body: Result<RequestBody, Status>,
) -> Response<ResponseBody> {
    let answer = match body {
        Ok(body) => Call::new(shared, head).carry_out(body).await,
        Err(status) => Err(status),
    };
    answer.unwrap_or_else(Status::into_http)
}

struct Call<'a> {
    shared: &'a Shared,
    head: Parts,
    memo: Memo,
    /// The clock is read only for RPCs that wait or are limited by their route.
    started: Option<Instant>,
    deadline: Deadline,
    /// Made at the first wait; goes along with the response.
    timer: Option<Pin<Box<Sleep>>>,
}

/// How one attempt ended without an answer.
enum Unanswered {
    /// The endpoint did not see it: here is the request again.
    Unsent(RequestBody),
    Failed(Status),
}

impl<'a> Call<'a> {
    fn new(shared: &'a Shared, head: Parts) -> Self {
        Self {
            shared,
            deadline: Deadline::of_request(&head.headers),
            head,
            memo: Memo::default(),
            started: None,
            timer: None,
        }
    }

    async fn carry_out(mut self, mut body: RequestBody) -> Result<Response<ResponseBody>, Status> {
        self.head.uri = absolute(std::mem::take(&mut self.head.uri), &self.shared.authority)?;
        self.head.headers.entry(USER_AGENT).or_insert(AGENT);
        for _ in 0..=MAX_REFUSALS {
            let ticket = self.ticket().await?;
            match self.attempt(body, ticket).await {
                Ok(response) => return Ok(response),
                Err(Unanswered::Unsent(again)) => body = again,
                Err(Unanswered::Failed(status)) => return Err(status),
            }
        }
        Err(Status::unavailable(
            "the backends keep refusing the request unprocessed",
        ))
    }

    /// Waits until an endpoint can take the request, or it is clear that none will.
    async fn ticket(&mut self) -> Result<Ticket, Status> {
        loop {
            // Made before the look, so that a change between look and wait is not missed.
            let shared = self.shared;
            let changed = shared.changed();
            let step = shared.step(&self.head, &mut self.memo);
            if let Some(limit) = self.memo.limit {
                let started = *self.started.get_or_insert_with(Instant::now);
                self.deadline.limit(started, limit);
            }
            match step {
                Step::Go(ticket) => return Ok(ticket),
                Step::Fail(status) => return Err(status),
                Step::Wait(what) => {
                    self.started.get_or_insert_with(Instant::now);
                    self.bound(pin!(changed), || what.to_string()).await?;
                }
            }
        }
    }

    /// Sends the request to the endpoint of the ticket and waits for the head of the answer.
    async fn attempt(
        &mut self,
        body: RequestBody,
        ticket: Ticket,
    ) -> Result<Response<ResponseBody>, Unanswered> {
        let replay = body.replay();
        let request = self.request(body);
        let Ticket {
            mut sender,
            in_flight,
            picked,
        } = ticket;
        let sent = pin!(sender.try_send_request(request));
        let answer = self
            .bound(sent, || format!("waiting for the answer of {picked}"))
            .await;
        match answer.map_err(Unanswered::Failed)? {
            Ok(response) => {
                let timer = self.timer.take();
                let mut response =
                    response.map(|incoming| ResponseBody::new(incoming, in_flight, timer));
                if self.shared.report_picks {
                    response.extensions_mut().insert(picked);
                }
                Ok(response)
            }
            Err(error) => Err(unanswered(error, replay)),
        }
    }

    fn request(&mut self, body: RequestBody) -> Request<RequestBody> {
        self.deadline.write(&mut self.head.headers);
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.head.uri.clone();
        *request.headers_mut() = self.head.headers.clone();
        request
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
fn absolute(uri: Uri, authority: &Authority) -> Result<Uri, Status> {
    let mut parts = uri.into_parts();
    parts.scheme.get_or_insert(Scheme::HTTP);
    parts.authority.get_or_insert_with(|| authority.clone());
    Uri::from_parts(parts).map_err(|error| Status::internal(format!("request URI: {error}")))
}

fn unanswered(
    mut error: TrySendError<Request<RequestBody>>,
    replay: Option<RequestBody>,
) -> Unanswered {
    // hyper hands back what it did not send.
    if let Some(request) = error.take_message() {
        return Unanswered::Unsent(request.into_body());
    }
    let error = error.into_error();
    match replay {
        Some(replay) if status::never_processed(&error) => Unanswered::Unsent(replay),
        _ => Unanswered::Failed(status::of_transport(&error)),
    }
}
