//! The gRPC services of a member: requests by path.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use oxds_types::etcd::{
    AlarmRequest, AuthenticateRequest, CompactionRequest, DeleteRangeRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest, RangeRequest,
    ResponseHeader, StatusRequest, TxnRequest, WatchRequest, WatchResponse,
};
use prost::Message;
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::cluster::MAX_REQUEST;
use super::faults::CallFault;
use super::member::Member;
use super::refusal;
use super::requests::{Answer as _, Call};
use super::watches::serve_watches;

/// Bytes that a message may have beyond [`MAX_REQUEST`] before gRPC itself refuses it.
const OVERHEAD: usize = 512 * 1024;

type Pending<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

/// Answers a request by its path.
pub(super) async fn answer(
    request: http::Request<Incoming>,
    member: Arc<Member>,
) -> http::Response<Body> {
    match request.uri().path() {
        "/etcdserverpb.KV/Range" => unary::<RangeRequest>(request, member).await,
        "/etcdserverpb.KV/Put" => unary::<PutRequest>(request, member).await,
        "/etcdserverpb.KV/DeleteRange" => unary::<DeleteRangeRequest>(request, member).await,
        "/etcdserverpb.KV/Txn" => unary::<TxnRequest>(request, member).await,
        "/etcdserverpb.KV/Compact" => unary::<CompactionRequest>(request, member).await,
        "/etcdserverpb.Lease/LeaseGrant" => unary::<LeaseGrantRequest>(request, member).await,
        "/etcdserverpb.Lease/LeaseRevoke" => unary::<LeaseRevokeRequest>(request, member).await,
        "/etcdserverpb.Maintenance/Status" => unary::<StatusRequest>(request, member).await,
        "/etcdserverpb.Maintenance/Alarm" => unary::<AlarmRequest>(request, member).await,
        "/etcdserverpb.Auth/Authenticate" => unary::<AuthenticateRequest>(request, member).await,
        "/etcdserverpb.Lease/LeaseKeepAlive" => {
            grpc::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>()
                .streaming(KeepAlives(member), request)
                .await
        }
        "/etcdserverpb.Watch/Watch" => {
            grpc::<WatchRequest, WatchResponse>()
                .streaming(Watches(member), request)
                .await
        }
        path => Status::unimplemented(format!("unknown method {path}")).into_http(),
    }
}

fn grpc<Q: Message + Default + 'static, R: Message + Default + 'static>() -> Grpc<ProstCodec<R, Q>>
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(usize::MAX)
}

async fn unary<Q: Call>(
    request: http::Request<Incoming>,
    member: Arc<Member>,
) -> http::Response<Body> {
    let path = request.uri().path();
    let method = path.rsplit_once('/').map_or(path, |(_, method)| method);
    let service = Unary {
        method: method.to_owned(),
        member,
    };
    grpc::<Q, Q::Answer>().unary(service, request).await
}

struct Unary {
    method: String,
    member: Arc<Member>,
}

impl<Q: Call> UnaryService<Q> for Unary {
    type Response = Q::Answer;
    type Future = Pending<Q::Answer>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        self.member.count(&self.method);
        let mut releases = self.member.releases.subscribe();
        if !matches!(&*self.method, "Status" | "Authenticate") && self.member.faults().holds_call()
        {
            let (member, method) = (Arc::clone(&self.member), self.method.clone());
            return Box::pin(async move {
                // The member holds the sender, so it is not closed.
                let _ = releases.changed().await;
                let answer = respond(&member, &method, &request);
                answer.await
            });
        }
        respond(&self.member, &self.method, &request)
    }
}

/// Executes a call, or its fault.
fn respond<Q: Call>(member: &Member, method: &str, request: &Request<Q>) -> Pending<Q::Answer> {
    let fault = member.faults().take_call(method);
    let act = || act(member, request);
    let answer = match fault {
        None => act().map(Response::new),
        Some(CallFault::Refused(status)) => Err(status),
        Some(CallFault::EffectAndError(status)) => act().and(Err(status)),
        Some(CallFault::Silence) => return Box::pin(pending()),
        Some(CallFault::EffectAndSilence) => match act() {
            Ok(_) => return Box::pin(pending()),
            Err(status) => Err(status),
        },
    };
    Box::pin(async { answer })
}

/// Checks a request in etcd's order, and executes it.
fn act<Q: Call>(member: &Member, request: &Request<Q>) -> Result<Q::Answer, Status> {
    let message = request.get_ref();
    let size = message.encoded_len();
    if size > MAX_REQUEST + OVERHEAD {
        let limit = MAX_REQUEST + OVERHEAD;
        let text = format!("grpc: received message larger than max ({size} vs. {limit})");
        return Err(Status::resource_exhausted(text));
    }
    if message.needs_leader() && member.faults().is_leaderless {
        return Err(refusal::timed_out());
    }
    member.cluster.change(|data| {
        if let Some(needs) = message.needs() {
            data.users.check(request.metadata(), &needs)?;
        }
        if size > MAX_REQUEST {
            return Err(refusal::too_large());
        }
        let mut answer = message.act(data, member)?;
        // Transactions and stale reads have a revision of their own.
        let header = member.header(data);
        let own = answer.header().map(|own| own.revision);
        *answer.header() = Some(ResponseHeader {
            revision: own.unwrap_or(header.revision),
            ..header
        });
        Ok(answer)
    })
}

struct KeepAlives(Arc<Member>);

impl StreamingService<LeaseKeepAliveRequest> for KeepAlives {
    type Response = LeaseKeepAliveResponse;
    type ResponseStream = UnboundedReceiverStream<Result<LeaseKeepAliveResponse, Status>>;
    type Future = Pending<Self::ResponseStream>;

    fn call(&mut self, request: Request<Streaming<LeaseKeepAliveRequest>>) -> Self::Future {
        let member = Arc::clone(&self.0);
        let (responses, receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut requests = request.into_inner();
            while let Ok(Some(LeaseKeepAliveRequest { id })) = requests.message().await {
                member.count("LeaseKeepAlive");
                if member.faults().is_leaderless {
                    let _ = responses.send(Err(refusal::timed_out()));
                    return;
                }
                let answer = member.cluster.change(|data| LeaseKeepAliveResponse {
                    header: Some(member.header(data)),
                    id,
                    ttl: data.leases.renew(id, Instant::now()),
                });
                if responses.send(Ok(answer)).is_err() {
                    return;
                }
            }
        });
        Box::pin(async { Ok(Response::new(UnboundedReceiverStream::new(receiver))) })
    }
}

struct Watches(Arc<Member>);

impl StreamingService<WatchRequest> for Watches {
    type Response = WatchResponse;
    type ResponseStream = UnboundedReceiverStream<Result<WatchResponse, Status>>;
    type Future = Pending<Self::ResponseStream>;

    fn call(&mut self, request: Request<Streaming<WatchRequest>>) -> Self::Future {
        self.0.count("Watch");
        let fault = self.0.faults().take_call("Watch");
        match fault {
            Some(CallFault::Refused(status) | CallFault::EffectAndError(status)) => {
                return Box::pin(async { Err(status) });
            }
            Some(_) => return Box::pin(pending()),
            None => {}
        }
        let (responses, receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(serve_watches(Arc::clone(&self.0), request, responses));
        Box::pin(async { Ok(Response::new(UnboundedReceiverStream::new(receiver))) })
    }
}
