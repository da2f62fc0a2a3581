//! IO of one discovery service: its stream, and its share of the connection to the server.

use std::sync::Arc;

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};

use super::peer::GrpcPeer;
use super::stream::DiscoveryStream;
use crate::link::{ServerLink, ServerLinks};
use crate::source::event::SourceEvent;

/// IO of one discovery service.
pub(crate) struct GrpcFeed {
    peer: GrpcPeer,
    links: ServerLinks,
    /// Held from the first open to the close, retries included, so that a retry finds the connection.
    link: Option<Arc<ServerLink>>,
    stream: DiscoveryStream,
    max_response_bytes: usize,
}

impl GrpcFeed {
    /// Creates a closed feed.
    pub(crate) fn new(peer: GrpcPeer, links: ServerLinks, max_response_bytes: usize) -> Self {
        Self {
            peer,
            links,
            link: None,
            stream: DiscoveryStream::Closed,
            max_response_bytes,
        }
    }

    /// Opens a stream, on the connection that exists or on a new one.
    pub(crate) fn open(&mut self) {
        let (links, server) = (&self.links, &self.peer.server);
        let link = self.link.get_or_insert_with(|| links.link(server));
        self.stream = DiscoveryStream::open(Arc::clone(link));
    }

    /// Writes a SotW request; ignored while the stream is not open.
    pub(crate) fn request(&self, request: DiscoveryRequest) {
        self.stream.write(request);
    }

    /// Writes a delta request; ignored while the stream is not open.
    pub(crate) fn delta_request(&self, request: DeltaDiscoveryRequest) {
        self.stream.write_delta(request);
    }

    /// Closes the stream; the connection closes too, unless another stream uses it.
    pub(crate) fn close(&mut self) {
        self.stream = DiscoveryStream::Closed;
        self.link = None;
    }

    /// Drops the link, unless a stream is open.
    pub(crate) fn give_up_retry(&mut self) {
        if matches!(self.stream, DiscoveryStream::Closed) {
            self.link = None;
        }
    }

    /// Waits for the next event; never completes while closed. Cancel-safe.
    pub(crate) async fn next(&mut self) -> SourceEvent {
        let event = self.stream.next(&self.peer, self.max_response_bytes).await;
        with_type_url(&self.peer, event)
    }
}

/// Fills in the type URL of a response.
fn with_type_url(peer: &GrpcPeer, mut event: SourceEvent) -> SourceEvent {
    let type_url = match &mut event {
        SourceEvent::Response(response) => &mut response.type_url,
        SourceEvent::DeltaResponse(response) => &mut response.type_url,
        _ => return event,
    };
    // discovery.proto, `DiscoveryRequest.type_url`: the type is implicit on a stream for one type; only ADS requires
    // it.
    if let Some(resource_type) = peer.of_type.as_ref().filter(|_| type_url.is_empty()) {
        resource_type.type_url().clone_into(type_url);
    }
    event
}
