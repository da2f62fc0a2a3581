//! Polls one URL. [`oxds_core::poll`] decides when, and with which request.

use std::pin::Pin;
use std::sync::Arc;

use oxds_core::poll::{PollOutcome, RestPoller};
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use oxds_types::discovery::{DiscoveryRequest, Node};

use super::peer::RestPeer;
use super::post::post;
use crate::bootstrap::Server;
use crate::link::CallAuth;
use crate::source::event::SourceEvent;
use crate::source::optional::{OptionalFeed, OptionalPeer};
use crate::timer::{at, sleep_until};

/// IO of a REST source.
pub(super) struct RestFeed {
    peer: RestPeer,
    call_auth: CallAuth,
    node: Node,
    max_response_bytes: usize,
    /// State machine of the polls; `None` while closed.
    poll: Option<RestPoller>,
    /// `SourceEvent::Opened` has not been returned yet.
    opened: bool,
    /// The poll in progress.
    post: Option<Pin<Box<dyn Future<Output = PollOutcome> + Send>>>,
    epoch: tokio::time::Instant,
}

impl RestFeed {
    /// Creates a closed feed.
    pub(super) fn new(peer: RestPeer, node: Node, max_response_bytes: usize) -> Self {
        Self {
            call_auth: CallAuth::new(&peer.server),
            peer,
            node,
            max_response_bytes,
            poll: None,
            opened: false,
            post: None,
            epoch: tokio::time::Instant::now(),
        }
    }

    /// Waits for the next event. Cancel-safe: the poll in progress is kept in `self`.
    async fn next_event(&mut self) -> SourceEvent {
        if std::mem::take(&mut self.opened) {
            return SourceEvent::Opened(None);
        }
        loop {
            let now = Instant::from_epoch(self.epoch.elapsed());
            let Some(poll) = &mut self.poll else {
                return std::future::pending().await;
            };
            // At most one poll is in progress per type (C-269).
            if let Some(request) = poll.poll_transmit(now) {
                // A poll in progress is dropped, with its connection: its request is outdated.
                let (peer, call_auth) = (self.peer.clone(), self.call_auth.clone());
                let answer = post(peer, call_auth, request, self.max_response_bytes);
                self.post = Some(Box::pin(answer));
            }
            let timeout = poll.poll_timeout().map(|time| at(self.epoch, time));
            let answer = tokio::select! {
                answer = answer(&mut self.post) => {
                    let now = Instant::from_epoch(self.epoch.elapsed());
                    Some(poll.handle_outcome(now, answer, random()))
                }
                () = sleep_until(timeout) => {
                    let now = Instant::from_epoch(self.epoch.elapsed());
                    poll.handle_timeout(now, random())
                }
            };
            if let Some(answer) = answer {
                self.post = None;
                return event(answer);
            }
        }
    }
}

impl OptionalFeed for RestFeed {
    /// Starts polling; the first request sends the first poll.
    fn open(&mut self) {
        self.poll = Some(RestPoller::new(self.peer.pace, self.node.clone()));
        self.opened = true;
    }

    /// Sets the request of the next polls.
    fn request(&mut self, request: DiscoveryRequest) {
        if let Some(poll) = &mut self.poll {
            poll.handle_request(request);
        }
    }

    /// Stops polling, and closes the connection of a poll in progress.
    fn close(&mut self) {
        (self.poll, self.post, self.opened) = (None, None, false);
    }

    fn next(&mut self) -> Pin<Box<dyn Future<Output = SourceEvent> + Send + '_>> {
        Box::pin(self.next_event())
    }
}

impl OptionalPeer for RestPeer {
    fn uri(&self) -> Arc<str> {
        let scheme = if self.server.credentials.is_private() {
            "https"
        } else {
            "http"
        };
        let (host, path) = (self.server.address.authority(), &self.path);
        format!("{scheme}://{host}{path}").into()
    }

    fn server(&self) -> Option<&Server> {
        Some(&self.server)
    }

    fn feed(&self, node: &Node, max_response_bytes: usize) -> Box<dyn OptionalFeed> {
        let (peer, node) = (self.clone(), node.clone());
        Box::new(RestFeed::new(peer, node, max_response_bytes))
    }
}

async fn answer(
    post: &mut Option<Pin<Box<dyn Future<Output = PollOutcome> + Send>>>,
) -> PollOutcome {
    match post {
        Some(post) => post.await,
        None => std::future::pending().await,
    }
}

fn event(answer: PollOutcome) -> SourceEvent {
    match answer {
        PollOutcome::Response(response) => SourceEvent::Response(*response),
        PollOutcome::Unchanged => SourceEvent::Unchanged,
        PollOutcome::Failed(cause) => SourceEvent::PollFailed(cause),
        PollOutcome::Unreadable(reason) => SourceEvent::Invalid(reason),
    }
}
