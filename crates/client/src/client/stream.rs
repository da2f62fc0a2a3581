//! The ADS stream as IO: connects, writes requests, reads responses.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::Options;
use crate::bootstrap::Server;
use crate::transport;

const STREAM_ADS: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

type Opening<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// What happened to the stream.
#[derive(Debug)]
pub(super) enum Io {
    /// Requests can be written.
    Opened,
    Response(DiscoveryResponse),
    /// It ended, or never began, for this reason.
    Closed(String),
}

/// A stream to one server, in whatever state it is.
pub(super) enum AdsStream {
    Closed,
    Connecting(Opening<SendRequest<Body>>),
    /// The call is made; the server has yet to send its headers (C-64).
    Called(Live, Opening<Response<Streaming<DiscoveryResponse>>>),
    Answering(Live, Box<Streaming<DiscoveryResponse>>),
}

/// What a live stream is written by.
pub(super) struct Live {
    requests: mpsc::UnboundedSender<DiscoveryRequest>,
}

impl AdsStream {
    /// Begins to connect.
    pub(super) fn open(server: &Server, options: &Options) -> Self {
        let (address, keepalive) = (server.address.clone(), options.keepalive);
        Self::Connecting(Box::pin(async move {
            let dialled = transport::dial(&address, keepalive).await;
            let (connected, driver) =
                dialled.map_err(|error| Status::unavailable(error.to_string()))?;
            // It ends with its last sender: when the stream is dropped.
            tokio::spawn(driver);
            Ok(connected.sender)
        }))
    }

    pub(super) fn write(&self, request: DiscoveryRequest) {
        if let Self::Called(live, _) | Self::Answering(live, _) = self {
            // Should the stream have ended, the next read says so.
            let _ = live.requests.send(request);
        }
    }

    /// What happens next; pends while closed. Cancel-safe: what was begun is kept in `self`.
    pub(super) async fn next(&mut self, server: &Server, options: &Options) -> Io {
        loop {
            match self {
                Self::Closed => std::future::pending::<()>().await,
                Self::Connecting(connecting) => match connecting.await {
                    Ok(sender) => {
                        *self = call(sender, server, options);
                        return Io::Opened;
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Called(_, headers) => match headers.await {
                    Ok(response) => {
                        let Self::Called(live, _) = std::mem::replace(self, Self::Closed) else {
                            continue;
                        };
                        *self = Self::Answering(live, Box::new(response.into_inner()));
                    }
                    Err(status) => return self.close(&status),
                },
                Self::Answering(_, responses) => match responses.message().await {
                    Ok(Some(response)) => return Io::Response(response),
                    Ok(None) => return self.close(&Status::ok("the server ended the stream")),
                    Err(status) => return self.close(&status),
                },
            }
        }
    }

    fn close(&mut self, status: &Status) -> Io {
        *self = Self::Closed;
        Io::Closed(match status.code() {
            tonic::Code::Ok => status.message().to_owned(),
            code => format!("{code:?}: {}", status.message()),
        })
    }
}

/// Makes the call. Requests can be written at once, whenever the headers come.
fn call(sender: SendRequest<Body>, server: &Server, options: &Options) -> AdsStream {
    let (requests, queue) = mpsc::unbounded_channel();
    let authority = server.address.authority();
    let origin = Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/")
        .build();
    let mut grpc = Grpc::with_origin(Caller(sender), origin.unwrap_or_default())
        .max_decoding_message_size(options.most_response_bytes);
    let called = async move {
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        grpc.streaming(
            tonic::Request::new(UnboundedReceiverStream::new(queue)),
            PathAndQuery::from_static(STREAM_ADS),
            ProstCodec::<DiscoveryRequest, DiscoveryResponse>::default(),
        )
        .await
    };
    AdsStream::Called(Live { requests }, Box::pin(called))
}

/// A connection as the service that tonic's client calls.
struct Caller(SendRequest<Body>);

impl Service<http::Request<Body>> for Caller {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
