//! A server that is polled: when, and what it is asked, says [`oxds_core::poll`].

use std::future::Future;
use std::pin::Pin;

use oxds_core::poll::{PollOutcome, RestPoller};
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, Node};

use super::Io;
use super::post::post;
use crate::credentials::Shown;
use crate::random::random;
use crate::source::RestPeer;

pub(super) struct RestFeed {
    peer: RestPeer,
    shown: Shown,
    node: Node,
    most_response_bytes: usize,
    /// None while it is closed.
    poll: Option<RestPoller>,
    /// That it is open has yet to be said.
    opened: bool,
    asking: Option<Pin<Box<dyn Future<Output = PollOutcome> + Send>>>,
    epoch: tokio::time::Instant,
}

impl RestFeed {
    pub(super) fn new(peer: RestPeer, node: Node, most_response_bytes: usize) -> Self {
        Self {
            shown: Shown::to(&peer.server),
            peer,
            node,
            most_response_bytes,
            poll: None,
            opened: false,
            asking: None,
            epoch: tokio::time::Instant::now(),
        }
    }

    pub(super) fn open(&mut self) {
        self.poll = Some(RestPoller::new(self.peer.pace, self.node.clone()));
        self.opened = true;
    }

    pub(super) fn ask(&mut self, request: DiscoveryRequest) {
        if let Some(poll) = &mut self.poll {
            poll.handle_request(request);
        }
    }

    pub(super) fn close(&mut self) {
        (self.poll, self.asking, self.opened) = (None, None, false);
    }

    /// Cancel-safe: the open question is kept in `self`.
    pub(super) async fn next(&mut self) -> Io {
        if std::mem::take(&mut self.opened) {
            return Io::Opened(None);
        }
        loop {
            let now = Instant::from_epoch(self.epoch.elapsed());
            let Some(poll) = &mut self.poll else {
                return std::future::pending().await;
            };
            if let Some(question) = poll.poll_transmit(now) {
                // One that was open is given up with its connection.
                let (peer, shown) = (self.peer.clone(), self.shown.clone());
                let answer = post(peer, shown, question, self.most_response_bytes);
                self.asking = Some(Box::pin(answer));
            }
            let timeout = poll.poll_timeout().map(|at| self.epoch + at.since_epoch());
            let answer = tokio::select! {
                answer = answer(&mut self.asking) => {
                    let now = Instant::from_epoch(self.epoch.elapsed());
                    Some(poll.handle_outcome(now, answer, random()))
                }
                () = sleep_until(timeout) => {
                    let now = Instant::from_epoch(self.epoch.elapsed());
                    poll.handle_timeout(now, random())
                }
            };
            if let Some(answer) = answer {
                self.asking = None;
                return io(answer);
            }
        }
    }
}

async fn answer(
    asking: &mut Option<Pin<Box<dyn Future<Output = PollOutcome> + Send>>>,
) -> PollOutcome {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn io(answer: PollOutcome) -> Io {
    match answer {
        PollOutcome::Response(response) => Io::Response(*response),
        PollOutcome::Unchanged => Io::Unchanged,
        PollOutcome::Failed(cause) => Io::Unanswered(cause),
        PollOutcome::Unreadable(reason) => Io::Unreadable(reason),
    }
}
