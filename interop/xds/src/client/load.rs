//! Calls at a fixed rate: at every tick one of each planned method, on the next channel.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use oxds_channel::{Picked, XdsChannel};
use prost::Message;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::plan::{Call, Plan};
use super::stats::{Answer, Stats};
use crate::messages::{Empty, Payload, RpcType, SimpleRequest, SimpleResponse, path};

/// Response header with the name of the answering host.
const HOSTNAME: &str = "hostname";

/// Rate, channels and limits of the calls.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) channels: Vec<XdsChannel>,
    pub(super) planned: watch::Receiver<Arc<Plan>>,
    pub(super) stats: Arc<Stats>,
    /// Interval between two ticks.
    pub(super) period: Duration,
    pub(super) sizes: Sizes,
    pub(super) print: bool,
    pub(super) expected: Code,
    pub(super) fail: bool,
}

/// Payload sizes, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) request: usize,
    pub(super) response: i32,
}

/// Result of a call; the status is that of a failed call.
pub(super) type Ended = (RpcType, Code, Option<Status>);

/// A failed call, where `--fail_on_failed_rpc` allows none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} failed after a call had succeeded: {status}")]
pub struct FailedCall {
    method: &'static str,
    status: Status,
}

impl Load {
    /// Calls until a call fails that must not fail.
    pub(super) async fn run(&self, calls: &mut JoinSet<Ended>) -> Result<(), FailedCall> {
        let mut ticks = tokio::time::interval(self.period);
        let mut channels = self.channels.iter().cycle();
        let mut succeeded = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let Some(channel) = channels.next() else { return Ok(()) };
                    self.turn(channel, calls);
                }
                Some(ended) = calls.join_next() => {
                    // A call that panicked has already printed its panic.
                    let Ok((kind, code, status)) = ended else { continue };
                    if code == self.expected {
                        succeeded = true;
                    } else if self.fail && succeeded {
                        let status = status.unwrap_or_else(|| Status::ok("not expected"));
                        return Err(FailedCall { method: kind.method(), status });
                    }
                }
            }
        }
    }

    /// Starts one call of each planned method.
    fn turn(&self, channel: &XdsChannel, calls: &mut JoinSet<Ended>) {
        let plan = Arc::clone(&self.planned.borrow());
        for planned in &plan.calls {
            let (channel, planned, timeout) = (channel.clone(), planned.clone(), plan.timeout);
            let (stats, sizes, print) = (Arc::clone(&self.stats), self.sizes, self.print);
            // Before the spawn, so that calls are numbered in the order in which they start.
            let number = stats.begin(planned.kind);
            calls.spawn(async move {
                let outcome = one(channel, &planned, timeout, sizes).await;
                if print {
                    show(planned.kind, &outcome);
                }
                let outcome = outcome.map(|(answer, _)| answer);
                stats.end(number, planned.kind, &outcome);
                let status = outcome.err();
                let code = status.as_ref().map_or(Code::Ok, Status::code);
                (planned.kind, code, status)
            });
        }
    }
}

type Outcome = Result<(Answer, Option<Arc<Picked>>), Status>;

async fn one(channel: XdsChannel, call: &Call, timeout: Duration, sizes: Sizes) -> Outcome {
    match call.kind {
        RpcType::EmptyCall => {
            let called = exchange::<_, Empty>(channel, path::EMPTY_CALL, Empty {}, call, timeout);
            let (_, answer, picked) = called.await?;
            Ok((answer, picked))
        }
        RpcType::UnaryCall => {
            let request = SimpleRequest {
                response_size: sizes.response,
                payload: (sizes.request > 0).then(|| Payload {
                    body: vec![0; sizes.request].into(),
                }),
                fill_server_id: true,
            };
            let called = exchange(channel, path::UNARY_CALL, request, call, timeout);
            let (response, mut answer, picked): (SimpleResponse, _, _) = called.await?;
            // Old servers have the host name only in the message.
            if answer.host.is_empty() {
                answer.host = response.hostname;
            }
            Ok((answer, picked))
        }
    }
}

/// Makes a unary call as a stream of one message, so that headers and trailers stay separate.
async fn exchange<Q, A>(
    channel: XdsChannel,
    path: &'static str,
    message: Q,
    call: &Call,
    timeout: Duration,
) -> Result<(A, Answer, Option<Arc<Picked>>), Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut request = Request::new(message);
    *request.metadata_mut() = call.metadata.clone();
    request.set_timeout(timeout);
    let codec = ProstCodec::<Q, A>::default();
    let path = PathAndQuery::from_static(path);
    let mut grpc = Grpc::new(channel);
    let (initial, mut stream, extensions) = grpc
        .server_streaming(request, path, codec)
        .await?
        .into_parts();
    let message = stream
        .message()
        .await?
        .ok_or_else(|| Status::internal("an answer without a message"))?;
    let trailing = stream.trailers().await?.unwrap_or_default();
    let host = initial.get(HOSTNAME).and_then(|host| host.to_str().ok());
    let answer = Answer {
        host: host.unwrap_or_default().to_owned(),
        initial,
        trailing,
    };
    Ok((message, answer, extensions.get().cloned()))
}

/// Prints the line of `--print_response`. Drivers look for the line of `UnaryCall`.
#[allow(clippy::print_stdout, reason = "the suite reads stdout")]
fn show(kind: RpcType, outcome: &Outcome) {
    match outcome {
        Ok((answer, picked)) => {
            let (host, from) = (&answer.host, picked.as_ref().map(|p| p.address.to_string()));
            let from = from.unwrap_or_default();
            if kind == RpcType::UnaryCall {
                println!("Greeting: Hello world, this is {host}, from {from}");
            } else {
                println!("{}: {host}, from {from}", kind.method());
            }
        }
        Err(status) => println!("{}: {status}", kind.method()),
    }
}
