//! Registry of all clients of a server.

use std::sync::Arc;

use oxds_core::session::Config;
use oxds_core::snapshot::Snapshot;

use super::client::{Client, Sessions};
use super::polls::PollClients;
use super::streams::StreamRegistry;
use crate::cache::{Cache, ChangeNotifier};
use crate::metrics::protocol_name;
use crate::server::Clock;

/// All clients of a server.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) streams: Arc<StreamRegistry>,
    pub(crate) polls: PollClients,
    clock: Clock,
}

impl Clients {
    pub(crate) fn new(config: Arc<Config>, clock: Clock, notifier: &Arc<ChangeNotifier>) -> Self {
        Self {
            streams: Arc::new(StreamRegistry::new(notifier)),
            polls: PollClients::new(config),
            clock,
        }
    }

    /// Calls `see` for every client with the snapshot that its node sees: streams, oldest first, then poll clients.
    ///
    /// The session of the client is locked during the call.
    pub(crate) fn each(&self, cache: &Cache, mut see: impl FnMut(&Client<'_>, &Snapshot)) {
        for open in self.streams.list() {
            let snapshot = open.view(cache).snapshot();
            let session = open.session();
            let client = Client {
                peer: Some(open.peer.address),
                protocol: protocol_name(open.protocol),
                since: open.since,
                node: session.node(),
                sessions: Sessions::Stream(&session),
            };
            see(&client, &snapshot);
        }
        self.polls
            .each(cache, self.clock.now(), |kind, polls, snapshot| {
                let client = Client {
                    peer: None,
                    protocol: kind.as_str(),
                    since: polls.since,
                    node: Some(&polls.node),
                    sessions: Sessions::Polls(polls.sessions().collect()),
                };
                see(&client, snapshot);
            });
    }
}
