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

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

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
pub(crate) async fn run(
    shared: &Shared,
    request: Request<tonic::body::Body>,
) -> Response<ResponseBody> {
    let answer = Call::new(shared, &request).carry_out(request).await;
    answer.unwrap_or_else(Status::into_http)
}

struct Call<'a> {
    shared: &'a Shared,
    started: Instant,
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
    fn new(shared: &'a Shared, request: &Request<tonic::body::Body>) -> Self {
        Self {
            shared,
            started: Instant::now(),
            deadline: Deadline::of_request(request.headers()),
            timer: None,
        }
    }

    async fn carry_out(
        mut self,
        request: Request<tonic::body::Body>,
    ) -> Result<Response<ResponseBody>, Status> {
        let (mut head, body) = request.into_parts();
        head.uri = absolute(head.uri, &self.shared.authority)?;
        head.headers.entry(USER_AGENT).or_insert(AGENT);
        let mut body = prime(body).await?;
        let mut memo = Memo::default();
        let mut refusals = 0;
        loop {
            let ticket = self.ticket(&head, &mut memo).await?;
            match self.attempt(&mut head, body, ticket).await {
                Ok(response) => return Ok(response),
                Err(Unanswered::Unsent(again)) if refusals < MAX_REFUSALS => {
                    refusals += 1;
                    body = again;
                }
                Err(Unanswered::Unsent(_)) => {
                    let text = "the backends keep refusing the request unprocessed";
                    return Err(Status::unavailable(text));
                }
                Err(Unanswered::Failed(status)) => return Err(status),
            }
        }
    }

    /// Waits until an endpoint can take the request, or it is clear that none will.
    async fn ticket(&mut self, head: &Parts, memo: &mut Memo) -> Result<Ticket, Status> {
        loop {
            // Made before the look, so that a change between look and wait is not missed.
            let changed = self.shared.changed();
            match self.shared.step(head, memo) {
                Step::Go(ticket) => {
                    self.limit(memo);
                    return Ok(ticket);
                }
                Step::Fail(status) => return Err(status),
                Step::Wait(what) => {
                    self.limit(memo);
                    self.bound(changed, || what.to_string()).await?;
                }
            }
        }
    }

    fn limit(&mut self, memo: &Memo) {
        if let Some(limit) = memo.limit {
            self.deadline.limit(self.started, limit);
        }
    }

    /// Sends the request to the endpoint of the ticket and waits for the head of the answer.
    async fn attempt(
        &mut self,
        head: &mut Parts,
        body: RequestBody,
        ticket: Ticket,
    ) -> Result<Response<ResponseBody>, Unanswered> {
        let replay = body.replay();
        self.deadline.write(&mut head.headers);
        let mut request = Request::new(body);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        let Ticket {
            mut sender,
            in_flight,
            picked,
        } = ticket;
        let sent = sender.try_send_request(request);
        let answer = self
            .bound(sent, || format!("waiting for the answer of {picked}"))
            .await;
        match answer.map_err(Unanswered::Failed)? {
            Ok(response) => {
                let mut response = response
                    .map(|incoming| ResponseBody::new(incoming, in_flight, self.timer.take()));
                if self.shared.report_picks {
                    response.extensions_mut().insert(picked);
                }
                Ok(response)
            }
            Err(error) => Err(unanswered(error, replay)),
        }
    }

    /// Waits for `future`, but not beyond the deadline, which would be `what`'s fault.
    async fn bound<F: Future>(
        &mut self,
        future: F,
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

async fn prime(body: tonic::body::Body) -> Result<RequestBody, Status> {
    let mut body = Some(body);
    poll_fn(|cx| Poll::Ready(RequestBody::prime(body.take().unwrap_or_default(), cx))).await
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
