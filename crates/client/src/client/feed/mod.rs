//! One end of a source as IO: a stream, a server that is polled, or a file. No decision about the protocol is made
//! here.
//!
//! ```text
//!  machine ── AdsTransmit ─► Feed ── Io ─► machine
//!                          ├─ AdsStream    writes what it is given, reads what comes
//!                          ├─ RestFeed     posts what it was given last, when core::poll says so
//!                          └─ FileFeed     reads the file when it changed
//! ```

mod file;
mod post;
mod rest;
mod watched;

use std::fmt;
use std::sync::Arc;

use oxds_core::ads::AdsTransmit;
use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse, Node};
use tonic::Code;

use super::Options;
use super::stream::AdsStream;
use crate::bootstrap::Bootstrap;
use crate::source::{GrpcPeer, Peer, Source, SourceError};
use crate::transport::Ends;
use file::FileFeed;
use rest::RestFeed;

/// What happened at the other end.
#[derive(Debug)]
pub enum Io {
    /// Requests can be written, over a connection between these, if it is one.
    Opened(Option<Ends>),
    /// A full state.
    Response(DiscoveryResponse),
    /// A difference.
    Difference(DeltaDiscoveryResponse),
    /// A poll that brought nothing new.
    Unchanged,
    /// A poll failed, for this reason; there will be another.
    Unanswered(String),
    /// A file, or the answer to a poll, of which nothing can be made, for this reason; the next may be better.
    Unreadable(String),
    /// The stream ended, or never began. The next [`AdsTransmit::Open`] begins another.
    Closed(Ended),
}

/// How a stream ended, or why it never began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The status of the call: what the server said, or what stands for a connection that broke or could not be had.
    pub code: Code,
    /// Its message, for people.
    pub message: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Code::Ok => f.write_str(&self.message),
            code => write!(f, "{code:?}: {}", self.message),
        }
    }
}

/// A source of resources of one kind, as it speaks: for who has a machine of its own, such as
/// [`Observer`](oxds_core::observe::Observer). Applications take [`XdsClient::watch_from`](crate::XdsClient::watch_from).
pub struct Feed {
    uri: Arc<str>,
    options: Options,
    wire: Wire,
}

enum Wire {
    Grpc(Box<GrpcPeer>, AdsStream),
    Rest(Box<RestFeed>),
    File(Box<FileFeed>),
}

impl Feed {
    /// The most wanted end of a source; it is closed as yet.
    ///
    /// # Errors
    /// The kind cannot be had from such a source.
    pub fn new(
        source: &Source,
        resource_type: &ResourceType,
        bootstrap: &Bootstrap,
        options: &Options,
    ) -> Result<Self, SourceError> {
        let peers = source.peers(resource_type, bootstrap, options.protocol)?;
        let peer = peers.into_iter().next();
        let peer = peer.ok_or(SourceError::NoServer)?;
        Ok(Self::of(peer, &bootstrap.node, options))
    }

    pub(super) fn of(peer: Peer, node: &Node, options: &Options) -> Self {
        let uri = peer.uri();
        let wire = match peer {
            Peer::Grpc(peer) => Wire::Grpc(Box::new(peer), AdsStream::Closed),
            Peer::Rest(peer) => Wire::Rest(Box::new(RestFeed::new(
                peer,
                node.clone(),
                options.most_response_bytes,
            ))),
            Peer::File(file, resource_type) => Wire::File(Box::new(FileFeed::new(
                file,
                resource_type,
                options.most_response_bytes,
            ))),
        };
        let options = options.clone();
        Self { uri, options, wire }
    }

    /// How logs and errors name it.
    #[must_use]
    pub fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    /// Whether it takes a connection that is kept.
    pub(super) fn connects(&self) -> bool {
        matches!(self.wire, Wire::Grpc(..))
    }

    /// Does what a machine asks for.
    pub fn transmit(&mut self, transmit: AdsTransmit) {
        match &mut self.wire {
            Wire::Grpc(peer, stream) => match transmit {
                AdsTransmit::Open => *stream = AdsStream::open(peer, &self.options),
                AdsTransmit::SotwRequest(request) => stream.write(*request),
                AdsTransmit::DeltaRequest(request) => stream.write_difference(*request),
                AdsTransmit::Close => *stream = AdsStream::Closed,
            },
            Wire::Rest(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.ask(*request),
                // It is described to machines as one of full states.
                AdsTransmit::DeltaRequest(_) => {}
                AdsTransmit::Close => feed.close(),
            },
            Wire::File(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.ask(request.resource_names),
                // As above.
                AdsTransmit::DeltaRequest(_) => {}
                AdsTransmit::Close => feed.close(),
            },
        }
    }

    /// What happens next; pends while it is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: what was begun is kept.
    pub async fn next(&mut self) -> Io {
        match &mut self.wire {
            Wire::Grpc(peer, stream) => of_type(peer, stream.next(peer, &self.options).await),
            Wire::Rest(feed) => feed.next().await,
            Wire::File(feed) => feed.next().await,
        }
    }
}

/// The type is for streams of many: servers of one may leave it out.
fn of_type(peer: &GrpcPeer, mut io: Io) -> Io {
    let type_url = match &mut io {
        Io::Response(response) => &mut response.type_url,
        Io::Difference(response) => &mut response.type_url,
        _ => return io,
    };
    if let Some(resource_type) = peer.of.as_ref().filter(|_| type_url.is_empty()) {
        resource_type.type_url().clone_into(type_url);
    }
    io
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}
