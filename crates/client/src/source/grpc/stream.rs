//! A discovery stream as IO: connects, writes requests, reads responses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::uri::PathAndQuery;
use oxds_core::ads::Protocol;
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use oxds_types::request::HasNode;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Response, Status, Streaming};

use super::peer::GrpcPeer;
use crate::link::RequestCodec;
use crate::link::{ServerConnection, ServerLink};
use crate::source::event::{SourceEvent, StreamEnd};

type PendingResult<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// A stream to one server.
pub(super) enum DiscoveryStream {
    Closed,
    Connecting(PendingResult<ServerConnection>),
    /// The call is made, and the server has not sent its response headers yet (C-64).
    Called(Requests, PendingResult<Responses>),
    /// The server has sent its response headers.
    Receiving(Requests, Responses),
}

/// Sender of requests, in either variant of the protocol.
pub(super) enum Requests {
    Sotw(mpsc::UnboundedSender<DiscoveryRequest>),
    Delta(mpsc::UnboundedSender<DeltaDiscoveryRequest>),
}

/// Receiver of responses, in either variant of the protocol.
pub(super) enum Responses {
    Sotw(Box<Streaming<DiscoveryResponse>>),
    Delta(Box<Streaming<DeltaDiscoveryResponse>>),
}

impl DiscoveryStream {
    /// Starts waiting for the connection to the server.
    pub(super) fn open(link: Arc<ServerLink>) -> Self {
        Self::Connecting(Box::pin(async move {
            let connected = link.connection().await;
            connected.map_err(|error| Status::unavailable(error.to_string()))
        }))
    }

    /// Writes a SotW request; ignored while the stream is not open.
    pub(super) fn write(&self, request: DiscoveryRequest) {
        if let Self::Called(Requests::Sotw(requests), _)
        | Self::Receiving(Requests::Sotw(requests), _) = self
        {
            // If the stream has ended, the next read reports it.
            let _ = requests.send(request);
        }
    }

    /// Writes a delta request; ignored while the stream is not open.
    pub(super) fn write_delta(&self, request: DeltaDiscoveryRequest) {
        if let Self::Called(Requests::Delta(requests), _)
        | Self::Receiving(Requests::Delta(requests), _) = self
        {
            // As above.
            let _ = requests.send(request);
        }
    }

    /// Waits for the next event; never completes while closed. Cancel-safe: work in progress is kept in `self`.
    pub(super) async fn next(&mut self, peer: &GrpcPeer, max_response_bytes: usize) -> SourceEvent {
        loop {
            match self {
                Self::Closed => std::future::pending::<()>().await,
                Self::Connecting(connecting) => match connecting.await {
                    Ok(connection) => {
                        let addresses = connection.addresses().clone();
                        *self = call(connection, peer, max_response_bytes);
                        // Requests may be written now. Some servers send headers only with the first response (C-64).
                        return SourceEvent::Opened(Some(addresses));
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Called(_, headers) => match headers.await {
                    Ok(responses) => {
                        let Self::Called(requests, _) = std::mem::replace(self, Self::Closed)
                        else {
                            continue;
                        };
                        *self = Self::Receiving(requests, responses);
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Receiving(_, responses) => match responses.next().await {
                    Ok(Some(event)) => return event,
                    Ok(None) => return self.close(&Status::ok("the server ended the stream")),
                    Err(status) => return self.close(&status),
                },
            }
        }
    }

    fn close(&mut self, status: &Status) -> SourceEvent {
        *self = Self::Closed;
        SourceEvent::Closed(StreamEnd {
            code: status.code(),
            message: status.message().to_owned(),
        })
    }
}

impl Responses {
    /// Waits for the next response; `None` when the server has ended the stream. Cancel-safe.
    async fn next(&mut self) -> Result<Option<SourceEvent>, Status> {
        Ok(match self {
            Self::Sotw(responses) => responses.message().await?.map(SourceEvent::Response),
            Self::Delta(responses) => responses.message().await?.map(SourceEvent::DeltaResponse),
        })
    }
}

/// Starts the call. Requests can be written at once, before the response headers arrive.
fn call(
    connection: ServerConnection,
    peer: &GrpcPeer,
    max_response_bytes: usize,
) -> DiscoveryStream {
    match peer.protocol {
        Protocol::Sotw => {
            let (requests, responses) = stream(connection, peer, max_response_bytes);
            let responses = async { Ok(Responses::Sotw(Box::new(responses.await?))) };
            DiscoveryStream::Called(Requests::Sotw(requests), Box::pin(responses))
        }
        Protocol::Delta => {
            let (requests, responses) = stream(connection, peer, max_response_bytes);
            let responses = async { Ok(Responses::Delta(Box::new(responses.await?))) };
            DiscoveryStream::Called(Requests::Delta(requests), Box::pin(responses))
        }
    }
}

fn stream<Q, R>(
    connection: ServerConnection,
    peer: &GrpcPeer,
    max_response_bytes: usize,
) -> (mpsc::UnboundedSender<Q>, PendingResult<Streaming<R>>)
where
    Q: HasNode + 'static,
    R: Message + Default + 'static,
{
    let (requests, queue) = mpsc::unbounded_channel();
    let mut grpc = connection
        .grpc()
        .max_decoding_message_size(max_response_bytes);
    let (version, method) = (peer.server.version(), method(peer));
    let called = async move {
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let response = grpc.streaming(
            tonic::Request::new(UnboundedReceiverStream::new(queue)),
            method,
            RequestCodec::<Q, R>::new(version),
        );
        response.await.map(Response::into_inner)
    };
    (requests, Box::pin(called))
}

/// Returns the path of the call. `Grpc::peers` creates no peer without a method.
fn method(peer: &GrpcPeer) -> PathAndQuery {
    let path = peer
        .method()
        .map(|(service, method)| format!("/{}/{method}", service.name));
    // A service name and a method name always form a valid path.
    path.and_then(|path| PathAndQuery::try_from(path).ok())
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
}
