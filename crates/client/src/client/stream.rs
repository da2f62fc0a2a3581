//! The ADS stream as IO: connects, writes requests, reads responses.

use std::future::Future;
use std::pin::Pin;

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

use super::Options;
use super::feed::{Ended, Io};
use crate::link::Link;
use crate::source::GrpcPeer;
use crate::transport::RequestCodec;

type Opening<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// A stream to one server, in whatever state it is.
pub(super) enum AdsStream {
    Closed,
    Connecting(Opening<Link>),
    /// The call is made; the server has yet to send its headers (C-64).
    Called(Requests, Opening<Responses>),
    Answering(Requests, Responses),
}

/// What a live stream is written by, in either variant of the protocol.
pub(super) enum Requests {
    Sotw(mpsc::UnboundedSender<DiscoveryRequest>),
    Delta(mpsc::UnboundedSender<DeltaDiscoveryRequest>),
}

/// And read by.
pub(super) enum Responses {
    Sotw(Box<Streaming<DiscoveryResponse>>),
    Delta(Box<Streaming<DeltaDiscoveryResponse>>),
}

impl AdsStream {
    /// Begins to connect.
    pub(super) fn open(peer: &GrpcPeer, options: &Options) -> Self {
        let (server, keepalive) = (peer.server.clone(), options.keepalive);
        Self::Connecting(Box::pin(async move {
            // It closes with its last clone: when the stream is dropped.
            let connected = Link::connect(&server, keepalive).await;
            connected.map_err(|error| Status::unavailable(error.to_string()))
        }))
    }

    pub(super) fn write(&self, request: DiscoveryRequest) {
        if let Self::Called(Requests::Sotw(requests), _)
        | Self::Answering(Requests::Sotw(requests), _) = self
        {
            // Should the stream have ended, the next read says so.
            let _ = requests.send(request);
        }
    }

    pub(super) fn write_difference(&self, request: DeltaDiscoveryRequest) {
        if let Self::Called(Requests::Delta(requests), _)
        | Self::Answering(Requests::Delta(requests), _) = self
        {
            // As above.
            let _ = requests.send(request);
        }
    }

    /// What happens next; pends while closed. Cancel-safe: what was begun is kept in `self`.
    pub(super) async fn next(&mut self, peer: &GrpcPeer, options: &Options) -> Io {
        loop {
            match self {
                Self::Closed => std::future::pending::<()>().await,
                Self::Connecting(connecting) => match connecting.await {
                    Ok(link) => {
                        let ends = link.ends().clone();
                        *self = call(link, peer, options);
                        return Io::Opened(Some(ends));
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Called(_, headers) => match headers.await {
                    Ok(responses) => {
                        let Self::Called(requests, _) = std::mem::replace(self, Self::Closed)
                        else {
                            continue;
                        };
                        *self = Self::Answering(requests, responses);
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Answering(_, responses) => match responses.next().await {
                    Ok(Some(io)) => return io,
                    Ok(None) => return self.close(&Status::ok("the server ended the stream")),
                    Err(status) => return self.close(&status),
                },
            }
        }
    }

    fn close(&mut self, status: &Status) -> Io {
        *self = Self::Closed;
        Io::Closed(Ended {
            code: status.code(),
            message: status.message().to_owned(),
        })
    }
}

impl Responses {
    /// The next one; `None` when the server has ended the stream. Cancel-safe.
    async fn next(&mut self) -> Result<Option<Io>, Status> {
        Ok(match self {
            Self::Sotw(responses) => responses.message().await?.map(Io::Response),
            Self::Delta(responses) => responses.message().await?.map(Io::Difference),
        })
    }
}

/// Makes the call. Requests can be written at once, whenever the headers come.
fn call(link: Link, peer: &GrpcPeer, options: &Options) -> AdsStream {
    match peer.protocol {
        Protocol::Sotw => {
            let (requests, responses) = stream(link, peer, options);
            let responses = async { Ok(Responses::Sotw(Box::new(responses.await?))) };
            AdsStream::Called(Requests::Sotw(requests), Box::pin(responses))
        }
        Protocol::Delta => {
            let (requests, responses) = stream(link, peer, options);
            let responses = async { Ok(Responses::Delta(Box::new(responses.await?))) };
            AdsStream::Called(Requests::Delta(requests), Box::pin(responses))
        }
    }
}

fn stream<Q, R>(
    link: Link,
    peer: &GrpcPeer,
    options: &Options,
) -> (mpsc::UnboundedSender<Q>, Opening<Streaming<R>>)
where
    Q: HasNode + 'static,
    R: Message + Default + 'static,
{
    let (requests, queue) = mpsc::unbounded_channel();
    let mut grpc = link
        .grpc()
        .max_decoding_message_size(options.most_response_bytes);
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

/// The path of the stream. A peer without one is not made.
fn method(peer: &GrpcPeer) -> PathAndQuery {
    let path = peer
        .method()
        .map(|(service, method)| format!("/{}/{method}", service.name));
    // Names of services and methods make a path.
    path.and_then(|path| PathAndQuery::try_from(path).ok())
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
}
