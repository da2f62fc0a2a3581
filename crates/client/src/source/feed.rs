//! Common interface of the IO of all sources.

use std::fmt;
use std::sync::Arc;

use oxds_core::ads::AdsTransmit;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::error::SourceError;
use super::event::SourceEvent;
use super::file::FileFeed;
use super::grpc::{DiscoveryStream, GrpcPeer};
use super::peer::Peer;
use super::rest::RestFeed;
use super::spec::Source;
use crate::bootstrap::Bootstrap;
use crate::options::Options;

/// IO of one source for one resource type: it sends what a state machine asks for, and reports what happens.
///
/// Applications use [`XdsClient::watch_from`](crate::XdsClient::watch_from) instead. A feed is for callers with their own
/// state machine, such as [`Observer`](oxds_core::observe::Observer).
pub struct Feed {
    uri: Arc<str>,
    options: Options,
    io: FeedIo,
}

enum FeedIo {
    Grpc(Box<GrpcPeer>, DiscoveryStream),
    Rest(Box<RestFeed>),
    File(Box<FileFeed>),
}

impl Feed {
    /// Creates a closed feed of the source's first server.
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::NoServer`] if it is
    /// [`Source::ads`] and the bootstrap has no server.
    pub fn new(
        source: &Source,
        resource_type: &ResourceType,
        bootstrap: &Bootstrap,
        options: &Options,
    ) -> Result<Self, SourceError> {
        let peers = source.peers(resource_type, bootstrap, options.protocol)?;
        let peer = peers.into_iter().next();
        let peer = peer.ok_or(SourceError::NoServer)?;
        Ok(Self::from_peer(peer, &bootstrap.node, options))
    }

    /// Creates a closed feed of one peer.
    pub(crate) fn from_peer(peer: Peer, node: &Node, options: &Options) -> Self {
        let uri = peer.uri();
        let most_bytes = options.max_response_bytes;
        let io = match peer {
            Peer::Grpc(peer) => FeedIo::Grpc(Box::new(peer), DiscoveryStream::Closed),
            Peer::Rest(peer) => {
                FeedIo::Rest(Box::new(RestFeed::new(peer, node.clone(), most_bytes)))
            }
            Peer::File(file, resource_type) => {
                FeedIo::File(Box::new(FileFeed::new(file, resource_type, most_bytes)))
            }
        };
        let options = options.clone();
        Self { uri, options, io }
    }

    /// Returns the name of the server, URL or file in logs and errors.
    #[must_use]
    pub fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    /// Returns whether it keeps a connection open, which channelz reports.
    pub(crate) fn has_connection(&self) -> bool {
        matches!(self.io, FeedIo::Grpc(..))
    }

    /// Executes a command of the state machine.
    pub fn transmit(&mut self, transmit: AdsTransmit) {
        match &mut self.io {
            FeedIo::Grpc(peer, stream) => match transmit {
                AdsTransmit::Open => *stream = DiscoveryStream::open(peer, &self.options),
                AdsTransmit::SotwRequest(request) => stream.write(*request),
                AdsTransmit::DeltaRequest(request) => stream.write_delta(*request),
                AdsTransmit::Close => *stream = DiscoveryStream::Closed,
            },
            FeedIo::Rest(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.request(*request),
                // `Peer::to_server` describes REST and file sources as SotW, so no delta request comes.
                AdsTransmit::DeltaRequest(_) => {}
                AdsTransmit::Close => feed.close(),
            },
            FeedIo::File(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.request(request.resource_names),
                // As above.
                AdsTransmit::DeltaRequest(_) => {}
                AdsTransmit::Close => feed.close(),
            },
        }
    }

    /// Waits for the next event. Never completes while the feed is closed.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: work in progress is kept in the feed.
    pub async fn next(&mut self) -> SourceEvent {
        match &mut self.io {
            FeedIo::Grpc(peer, stream) => {
                let event = stream.next(peer, &self.options).await;
                with_type_url(peer, event)
            }
            FeedIo::Rest(feed) => feed.next().await,
            FeedIo::File(feed) => feed.next().await,
        }
    }
}

/// Fills in the type URL of a response.
fn with_type_url(peer: &GrpcPeer, mut event: SourceEvent) -> SourceEvent {
    let type_url = match &mut event {
        SourceEvent::Response(response) => &mut response.type_url,
        SourceEvent::DeltaResponse(response) => &mut response.type_url,
        _ => return event,
    };
    // discovery.proto, `DiscoveryRequest.type_url`: the type is implicit on a stream for one type; only ADS requires it.
    if let Some(resource_type) = peer.of_type.as_ref().filter(|_| type_url.is_empty()) {
        resource_type.type_url().clone_into(type_url);
    }
    event
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}
