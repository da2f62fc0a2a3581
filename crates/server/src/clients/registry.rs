//! Registry of all clients of a server.

use std::collections::HashSet;
use std::sync::Arc;

use oxds_core::session::Config;
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;

use super::client::{Client, Sessions};
use super::polls::{PollClient, PollClients, PollKind};
use super::streams::{OpenStream, StreamRegistry};
use crate::cache::{Cache, ChangeNotifier};
use crate::calls::{Budget, Clock};
use crate::metrics::protocol_name;

/// All clients of a server.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) streams: Arc<StreamRegistry>,
    pub(crate) polls: PollClients,
    clock: Clock,
}

impl Clients {
    pub(crate) fn new(
        config: Arc<Config>,
        clock: Clock,
        notifier: &Arc<ChangeNotifier>,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            streams: Arc::new(StreamRegistry::new(clock, notifier)),
            polls: PollClients::new(config, budget),
            clock,
        }
    }

    /// Returns the nodes that were connected within the last two minutes and are not any more, with the time at which
    /// they left. Costs as much as there are clients, unless none has left.
    pub(crate) fn away(&self, cache: &Cache) -> Vec<(String, Instant)> {
        let mut away = self.streams.away(self.clock.now());
        if away.is_empty() {
            return away;
        }
        let mut connected = HashSet::new();
        self.each(cache, |client, _| {
            connected.extend(client.node.map(|node| node.id.clone()));
        });
        away.retain(|(node, _)| !connected.contains(node));
        away.sort_unstable();
        away
    }

    /// Calls `see` for every client with the snapshot that its node sees: streams, oldest first, then poll clients.
    ///
    /// The session of the client is locked during the call.
    pub(crate) fn each(&self, cache: &Cache, mut see: impl FnMut(&Client<'_>, &Snapshot)) {
        for open in self.streams.list() {
            see_stream(cache, &open, &mut see);
        }
        self.polls
            .each(cache, self.clock.now(), |kind, polls, snapshot| {
                see_polls(kind, polls, snapshot, &mut see);
            });
    }

    /// Calls `see` for the client after this position, in the order of [`each`](Self::each). Returns the position of
    /// that client, or `None` without one. Clients that come and go between two calls do not move others past the
    /// position.
    pub(crate) fn see_next(
        &self,
        cache: &Cache,
        after: ClientCursor,
        see: &mut impl FnMut(&Client<'_>, &Snapshot),
    ) -> Option<ClientCursor> {
        let (streams_after, polls_after) = match after {
            ClientCursor::Start => (Some(None), None),
            ClientCursor::Stream(id) => (Some(Some(id)), None),
            ClientCursor::Poll(id, kind) => (None, Some((id, kind))),
        };
        let next = streams_after.and_then(|after| self.streams.after(after, 1).pop());
        if let Some((id, open)) = next {
            see_stream(cache, &open, see);
            return Some(ClientCursor::Stream(id));
        }
        let now = self.clock.now();
        let polls = &self.polls;
        let seen = polls.see_next(cache, now, polls_after, |kind, polls, snapshot| {
            see_polls(kind, polls, snapshot, see);
        });
        seen.map(|(id, kind)| ClientCursor::Poll(id, kind))
    }

    /// Calls `see` for the client at this position, if it is still there.
    #[cfg(feature = "page")]
    pub(crate) fn see_at(
        &self,
        cache: &Cache,
        at: &ClientCursor,
        see: &mut impl FnMut(&Client<'_>, &Snapshot),
    ) {
        match at {
            ClientCursor::Start => {}
            ClientCursor::Stream(id) => {
                let found = self.streams.after(id.checked_sub(1), 1).pop();
                if let Some((_, open)) = found.filter(|(found, _)| found == id) {
                    see_stream(cache, &open, see);
                }
            }
            ClientCursor::Poll(id, kind) => {
                let now = self.clock.now();
                let key = (id.clone(), *kind);
                self.polls.see(cache, now, &key, |kind, polls, snapshot| {
                    see_polls(kind, polls, snapshot, see);
                });
            }
        }
    }
}

/// A position in the list of all clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ClientCursor {
    /// Before the first client.
    #[default]
    Start,
    /// The stream with this number.
    Stream(u64),
    /// The poll client with this node id.
    Poll(String, PollKind),
}

fn see_stream(cache: &Cache, open: &OpenStream, see: &mut impl FnMut(&Client<'_>, &Snapshot)) {
    let snapshot = open.view(cache).snapshot();
    let session = open.session();
    let client = Client {
        peer: Some(open.peer.address),
        protocol: protocol_name(open.protocol),
        since: open.since,
        node: session.node(),
        answers: open.answers(),
        sessions: Sessions::Stream(&session),
    };
    see(&client, &snapshot);
}

fn see_polls(
    kind: PollKind,
    polls: &PollClient,
    snapshot: &Snapshot,
    see: &mut impl FnMut(&Client<'_>, &Snapshot),
) {
    let client = Client {
        peer: None,
        protocol: kind.as_str(),
        since: polls.since,
        node: Some(&polls.node),
        answers: None,
        sessions: Sessions::Polls(polls.sessions().collect()),
    };
    see(&client, snapshot);
}
