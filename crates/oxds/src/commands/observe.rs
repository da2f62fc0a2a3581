//! A stream to a control plane, and the machine that looks on at its end.

use std::sync::Arc;

use http::uri::PathAndQuery;
use oxds_client::transport::RequestCodec;
use oxds_core::observe::{Change, Held, Observer, Request};
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use oxds_types::kind::Service;
use oxds_types::request::Introduces;
use oxds_types::{ApiVersion, Kind};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::control_plane::{MAX_ANSWER, connect};
use super::source::Source;
use crate::exit::Failure;

/// Follows resources of one kind at a control plane.
#[derive(Debug)]
pub(crate) struct Following {
    machine: Observer,
    channel: Channel,
    version: ApiVersion,
    stream: Option<Stream>,
}

/// What a stream is written by and read by, in either variant of the protocol.
#[derive(Debug)]
enum Stream {
    Sotw(
        mpsc::UnboundedSender<DiscoveryRequest>,
        Box<Streaming<DiscoveryResponse>>,
    ),
    Delta(
        mpsc::UnboundedSender<DeltaDiscoveryRequest>,
        Box<Streaming<DeltaDiscoveryResponse>>,
    ),
}

impl Following {
    /// Connects. No names: all resources of the kind.
    pub(crate) async fn start(
        source: &Source,
        kind: Kind,
        names: impl IntoIterator<Item = Arc<str>>,
        protocol: Protocol,
    ) -> Result<Self, Failure> {
        let channel = connect(&source.server, None).await?;
        let machine = Observer::new(kind, names, protocol, source.node.clone());
        Ok(Self {
            machine: machine.asking_in(source.version),
            channel,
            version: source.version,
            stream: None,
        })
    }

    /// What changed with the next response; nothing, if that says nothing new. Opens a stream if there is none. After
    /// an error there is none, and what is held stays.
    pub(crate) async fn next(&mut self) -> Result<Vec<Change>, Status> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.open().await?,
        };
        let (request, changes) = match &mut stream {
            Stream::Sotw(_, responses) => {
                let response = responses.message().await?.ok_or_else(ended)?;
                self.machine.handle_response(response)
            }
            Stream::Delta(_, responses) => {
                let response = responses.message().await?.ok_or_else(ended)?;
                self.machine.handle_difference(response)
            }
        };
        stream.write(request);
        self.stream = Some(stream);
        Ok(changes)
    }

    /// What is held, by name.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Arc<str>, &Held)> {
        self.machine.held()
    }

    async fn open(&self) -> Result<Stream, Status> {
        let service = Service::aggregated(self.version);
        Ok(match self.machine.handle_opened() {
            Request::Sotw(first) => {
                let (requests, responses) = self.call(service.stream, *first).await?;
                Stream::Sotw(requests, responses)
            }
            Request::Delta(first) => {
                let (requests, responses) = self.call(service.delta, *first).await?;
                Stream::Delta(requests, responses)
            }
        })
    }

    /// Calls, with the first request already on its way: a server may send its headers with its first response only.
    async fn call<Q, R>(
        &self,
        method: Option<&str>,
        first: Q,
    ) -> Result<(mpsc::UnboundedSender<Q>, Box<Streaming<R>>), Status>
    where
        Q: Introduces + 'static,
        R: Message + Default + 'static,
    {
        let (requests, queue) = mpsc::unbounded_channel();
        // The other end is at hand.
        let _ = requests.send(first);
        let service = Service::aggregated(self.version).name;
        let path = format!("/{service}/{}", method.unwrap_or_default());
        let path =
            PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let called = grpc.streaming(
            tonic::Request::new(UnboundedReceiverStream::new(queue)),
            path,
            RequestCodec::<Q, R>::new(self.version),
        );
        Ok((requests, Box::new(called.await.map(Response::into_inner)?)))
    }
}

impl Stream {
    fn write(&self, request: Request) {
        // Should the stream have ended, the next read says so.
        match (self, request) {
            (Self::Sotw(requests, _), Request::Sotw(request)) => drop(requests.send(*request)),
            (Self::Delta(requests, _), Request::Delta(request)) => drop(requests.send(*request)),
            // The machine speaks one variant.
            (Self::Sotw(..), Request::Delta(_)) | (Self::Delta(..), Request::Sotw(_)) => {}
        }
    }
}

fn ended() -> Status {
    Status::unavailable("the server ended the stream")
}
