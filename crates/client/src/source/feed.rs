//! Common interface of the IO of all sources.

use std::fmt;
use std::sync::Arc;

use oxds_core::ads::AdsTransmit;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::error::SourceError;
use super::event::SourceEvent;
use super::grpc::GrpcFeed;
use super::optional::OptionalFeed;
use super::peer::Peer;
use super::spec::Source;
use crate::bootstrap::Bootstrap;
use crate::link::ServerLinks;
use crate::options::Options;

/// IO of one source for one resource type: it sends what a state machine asks for, and reports what happens.
///
/// Applications use [`XdsClient::watch_from`](crate::XdsClient::watch_from) instead. A feed is for callers with their
/// own state machine, such as [`Observer`](oxds_core::observe::Observer).
pub struct Feed {
    uri: Arc<str>,
    io: FeedIo,
}

enum FeedIo {
    Grpc(Box<GrpcFeed>),
    Optional(Box<dyn OptionalFeed>),
}

impl Feed {
    /// Creates a closed feed of the source's first server.
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off; [`SourceError::NoServer`] if it is [`Source::ads`] and the bootstrap has no server.
    pub fn new(
        source: &Source,
        resource_type: &ResourceType,
        bootstrap: &Bootstrap,
        options: &Options,
    ) -> Result<Self, SourceError> {
        let peers = source.peers(resource_type, bootstrap, options.protocol)?;
        let peer = peers.into_iter().next();
        let peer = peer.ok_or(SourceError::NoServer)?;
        let links = ServerLinks::new(options.keepalive);
        Ok(Self::from_peer(peer, &bootstrap.node, options, &links))
    }

    /// Creates a closed feed of one peer, with the connections of these links.
    pub(crate) fn from_peer(
        peer: Peer,
        node: &Node,
        options: &Options,
        links: &ServerLinks,
    ) -> Self {
        let uri = peer.uri();
        let most_bytes = options.max_response_bytes;
        let io = match peer {
            Peer::Grpc(peer) => {
                FeedIo::Grpc(Box::new(GrpcFeed::new(peer, links.clone(), most_bytes)))
            }
            Peer::Optional(peer) => FeedIo::Optional(peer.feed(node, most_bytes)),
        };
        Self { uri, io }
    }

    /// Returns the name of the server, URL or file in logs and errors.
    #[must_use]
    pub fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    /// Closes the connection that is kept for a retry of the stream. Has no effect while a stream is open.
    pub(crate) fn give_up_retry(&mut self) {
        if let FeedIo::Grpc(feed) = &mut self.io {
            feed.give_up_retry();
        }
    }

    /// Returns whether it keeps a connection open, which channelz reports.
    pub(crate) fn has_connection(&self) -> bool {
        matches!(self.io, FeedIo::Grpc(..))
    }

    /// Executes a command of the state machine.
    pub fn transmit(&mut self, transmit: AdsTransmit) {
        match &mut self.io {
            FeedIo::Grpc(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.request(*request),
                AdsTransmit::DeltaRequest(request) => feed.delta_request(*request),
                AdsTransmit::Close => feed.close(),
            },
            FeedIo::Optional(feed) => match transmit {
                AdsTransmit::Open => feed.open(),
                AdsTransmit::SotwRequest(request) => feed.request(*request),
                // `Peer::to_server` describes REST and file sources as SotW, so no delta request comes.
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
            FeedIo::Grpc(feed) => feed.next().await,
            FeedIo::Optional(feed) => feed.next().await,
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}
