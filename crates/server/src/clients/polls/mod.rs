//! Poll clients: clients without a stream, by `Fetch*` or REST.
//!
//! Each is represented by one SotW session per subscription, which decides what the client is sent, as the session of a
//! stream does ([`session`]). The next poll answers for the client.
//!
//! ```text
//!  poll ──▶ registry ──(node id, kind)──▶ PollClient ──(type, names)──▶ PollSession ──▶ response, or nothing new
//! ```
//!
//! A client may have several subscriptions of one type: Envoy polls the endpoints of each cluster by themselves, with
//! one node id for all. A subscription replaces those that share a name with it.

mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxds_core::session::{Config, Event, Session, TransmitResponse};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{DiscoveryResponse, Node};
use tokio_util::sync::CancellationToken;

use super::nack::ReportedNack;
use super::streams::lock;
use super::subscription::PollSubscription;
use crate::cache::{Cache, View};
use crate::calls::{Budget, MemoryShare, MemoryUse, cost};
pub(crate) use session::PollReport;
use session::{MAX_IDLE, PollSession};

/// Upper bound of poll clients (S-60). Clients beyond it, and clients without a node id, get answers, but nothing is
/// kept of them between two polls.
const MAX_CLIENTS: usize = 10_000;

/// Upper bound of the subscriptions of one client. The one that was not polled for the longest time ends for a new one.
const MAX_SUBSCRIPTIONS: usize = 2_000;

/// Least time between two searches for clients that have stopped polling. A search costs O(clients).
const SWEEP: Duration = Duration::from_secs(1);

/// How a client polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PollKind {
    Fetch,
    Rest,
}

impl PollKind {
    /// Returns the protocol name in the status: `fetch` or `rest`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Rest => "rest",
        }
    }
}

/// One poll: the client, and the resources that it asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientPoll<'a> {
    pub(crate) kind: PollKind,
    pub(crate) node: Option<&'a Node>,
    pub(crate) subscription: &'a PollSubscription,
    /// View of the node when the poll arrived.
    pub(crate) view: &'a Arc<View>,
}

/// Registry of the poll clients, by node id and kind.
#[derive(Debug)]
pub(crate) struct PollClients {
    config: Arc<Config>,
    /// No connection owns a poll client, so it counts against the budget of the server.
    budget: Arc<Budget>,
    clients: Mutex<PollEntries>,
}

#[derive(Debug, Default)]
struct PollEntries {
    clients: BTreeMap<(String, PollKind), Arc<Mutex<PollClient>>>,
    /// Time of the last search for clients that have stopped polling.
    swept: Instant,
}

/// A client that polls, by `Fetch*` or REST.
#[derive(Debug)]
pub(super) struct PollClient {
    pub(super) node: Node,
    /// Time of the first poll.
    pub(super) since: Instant,
    last_poll: Instant,
    /// View of the node, which `sessions` have seen.
    view: Arc<View>,
    sessions: BTreeMap<SessionKey, PollSession>,
    /// Bytes of the node and the subscriptions.
    share: MemoryShare,
    /// Whether the budget has no room for the client. It is answered, and then removed.
    is_over_budget: bool,
}

/// Resource type and canonical names of a subscription.
type SessionKey = (ResourceType, Vec<String>);

/// A poll that is being answered.
#[derive(Debug)]
pub(crate) struct OpenPoll {
    config: Arc<Config>,
    /// Registered for clients that identify themselves, else of this poll alone.
    client: Arc<Mutex<PollClient>>,
    key: SessionKey,
    turn: u64,
}

/// Effects of a poll on its session.
#[derive(Debug, Default)]
pub(crate) struct HandledPoll {
    /// The ACK or the NACK of the last response, if there is one.
    pub(crate) events: Vec<Event>,
    pub(crate) nacks: Vec<ReportedNack>,
    /// Whether the client, or its subscription, is new.
    pub(crate) is_new: bool,
}

impl PollClients {
    pub(crate) fn new(config: Arc<Config>, budget: Arc<Budget>) -> Self {
        Self {
            config,
            budget,
            clients: Mutex::default(),
        }
    }

    /// Handles the part of a poll that answers the last response, and returns the poll to be answered.
    pub(crate) fn open(
        &self,
        now: Instant,
        poll: ClientPoll<'_>,
        report: PollReport<'_>,
    ) -> (OpenPoll, HandledPoll) {
        let client = self.client(now, poll);
        let mut locked = lock(&client);
        locked.last_poll = now;
        locked.follow(poll.view, &self.config, now);
        let (turn, handled) = locked.handle_request(now, poll.subscription, report, &self.config);
        drop(locked);
        let open = OpenPoll {
            config: Arc::clone(&self.config),
            client,
            key: poll.subscription.key(),
            turn,
        };
        (open, handled)
    }

    /// Returns the client of a poll. Without a node id, and beyond the limit, it is not registered.
    fn client(&self, now: Instant, poll: ClientPoll<'_>) -> Arc<Mutex<PollClient>> {
        let new = || {
            Arc::new(Mutex::new(PollClient {
                node: poll.node.cloned().unwrap_or_default(),
                since: now,
                last_poll: now,
                view: Arc::clone(poll.view),
                sessions: BTreeMap::new(),
                share: self.budget.share(CancellationToken::new()),
                is_over_budget: false,
            }))
        };
        let Some(node) = poll.node.filter(|node| !node.id.is_empty()) else {
            return new();
        };
        let mut entries = lock(&self.clients);
        let key = (node.id.clone(), poll.kind);
        if now.saturating_since(entries.swept) >= SWEEP {
            entries.sweep(now);
        }
        if let Some(known) = entries.clients.get(&key) {
            return Arc::clone(known);
        }
        let client = new();
        let fits = lock(&client)
            .share
            .set(MemoryUse::Node, cost::node_bytes(node))
            .is_ok();
        if fits && entries.clients.len() < MAX_CLIENTS {
            entries.clients.insert(key, Arc::clone(&client));
        }
        client
    }

    /// Calls `see` for every client with the snapshot that its node sees.
    pub(super) fn each(
        &self,
        cache: &Cache,
        now: Instant,
        mut see: impl FnMut(PollKind, &PollClient, &Snapshot),
    ) {
        for (kind, client) in self.list(now) {
            let mut client = lock(&client);
            let view = cache.view(&client.node);
            client.follow(&view, &self.config, now);
            client.end_subscriptions(now);
            see(kind, &client, &view.snapshot());
        }
    }

    /// Calls `see` for the client after this key, and returns its key.
    pub(super) fn see_next(
        &self,
        cache: &Cache,
        now: Instant,
        after: Option<(String, PollKind)>,
        see: impl FnOnce(PollKind, &PollClient, &Snapshot),
    ) -> Option<(String, PollKind)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = lock(&self.clients);
        let mut next = entries.clients.range((from, Bound::Unbounded));
        let (key, client) = next.next()?;
        let (key, client) = (key.clone(), Arc::clone(client));
        // A client is locked while it is answered, and the registry must not wait for that.
        drop(entries);
        self.see_client(cache, now, key.1, &client, see);
        Some(key)
    }

    /// Calls `see` for the client with this key, if it is still there.
    #[cfg(feature = "page")]
    pub(super) fn see(
        &self,
        cache: &Cache,
        now: Instant,
        key: &(String, PollKind),
        see: impl FnOnce(PollKind, &PollClient, &Snapshot),
    ) {
        let client = lock(&self.clients).clients.get(key).map(Arc::clone);
        if let Some(client) = client {
            self.see_client(cache, now, key.1, &client, see);
        }
    }

    fn see_client(
        &self,
        cache: &Cache,
        now: Instant,
        kind: PollKind,
        client: &Mutex<PollClient>,
        see: impl FnOnce(PollKind, &PollClient, &Snapshot),
    ) {
        let mut client = lock(client);
        let view = cache.view(&client.node);
        client.follow(&view, &self.config, now);
        client.end_subscriptions(now);
        see(kind, &client, &view.snapshot());
    }

    /// Returns the clients that poll, by node id and kind.
    fn list(&self, now: Instant) -> Vec<(PollKind, Arc<Mutex<PollClient>>)> {
        let mut entries = lock(&self.clients);
        entries.sweep(now);
        let clients = entries.clients.iter();
        clients
            .map(|((_, kind), client)| (*kind, Arc::clone(client)))
            .collect()
    }

    /// Returns the number of poll clients.
    pub(crate) fn len(&self, now: Instant) -> usize {
        let mut entries = lock(&self.clients);
        entries.sweep(now);
        entries.clients.len()
    }
}

impl PollEntries {
    /// Removes the clients that have stopped polling.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.clients.retain(|_, client| match client.try_lock() {
            Ok(client) => {
                let is_over_budget = client.is_over_budget || client.share.ended().is_some();
                now.saturating_since(client.last_poll) < MAX_IDLE && !is_over_budget
            }
            // A locked client is being answered. A poisoned one is as it was before the panic.
            Err(_) => Arc::strong_count(client) > 1,
        });
    }
}

impl OpenPoll {
    /// Returns the response to send for a snapshot of this view, or `None` while the client has what is served to it.
    pub(crate) fn transmit(&self, now: Instant, view: &Arc<View>) -> Option<TransmitResponse> {
        let mut client = lock(&self.client);
        client.last_poll = now;
        client.follow(view, &self.config, now);
        // With the lock: a session must not see an older snapshot than before.
        let snapshot = view.load();
        let session = client.sessions.get_mut(&self.key)?;
        session.transmit(now, self.turn, &snapshot)
    }

    /// Keeps the response that was transmitted, for [`state`](Self::state).
    pub(crate) fn keep(&self, response: &DiscoveryResponse) {
        if let Some(session) = lock(&self.client).sessions.get_mut(&self.key) {
            session.keep(self.turn, response);
        }
    }

    /// Returns the complete state that the client has accepted, if it was kept.
    pub(crate) fn state(&self) -> Option<DiscoveryResponse> {
        let client = lock(&self.client);
        client.sessions.get(&self.key)?.state().cloned()
    }

    /// Whether the client has rejected content that is still served.
    pub(crate) fn has_nacked(&self) -> bool {
        let client = lock(&self.client);
        let session = client.sessions.get(&self.key);
        session.is_some_and(PollSession::has_nacked)
    }
}

impl PollClient {
    /// Returns the sessions: of each resource type one or more.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&ResourceType, &Session)> {
        let sessions = self.sessions.iter();
        sessions.map(|((resource_type, _), poll)| (resource_type, &poll.session))
    }

    /// Handles the answer to the last response. Returns the turn of the poll, and the effects.
    fn handle_request(
        &mut self,
        now: Instant,
        subscription: &PollSubscription,
        report: PollReport<'_>,
        config: &Arc<Config>,
    ) -> (u64, HandledPoll) {
        let key = subscription.key();
        let known = self.sessions.get(&key);
        let is_new = known.is_none_or(|known| known.subscription != *subscription);
        if is_new {
            self.begin(subscription, report, config, now);
        }
        let Some(session) = self.sessions.get_mut(&key) else {
            return (0, HandledPoll::default());
        };
        let events = session.handle_request(now, report, config);
        let nacks = session.reported_nacks(&events);
        let turn = session.turn();
        if !events.is_empty() {
            let texts = self.sessions().map(|(of, poll)| cost::of_nacks(poll, of));
            let bytes = texts.sum();
            self.is_over_budget |= self.share.set(MemoryUse::Nacks, bytes).is_err();
        }
        let handled = HandledPoll {
            events,
            nacks,
            is_new,
        };
        (turn, handled)
    }

    /// Opens a session for a subscription. Those of the same type that share a name with it end.
    fn begin(
        &mut self,
        subscription: &PollSubscription,
        report: PollReport<'_>,
        config: &Arc<Config>,
        now: Instant,
    ) {
        self.sessions
            .retain(|_, known| !known.subscription.overlaps(subscription));
        self.end_subscriptions(now);
        if self.sessions.len() >= MAX_SUBSCRIPTIONS {
            let sessions = self.sessions.iter();
            let oldest = sessions.min_by_key(|(_, session)| session.last_poll());
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|key| self.sessions.remove(&key));
        }
        let key = subscription.key();
        let names = self.sessions.keys().chain([&key]);
        let names = names.map(|(_, names)| cost::of_names(names)).sum();
        self.is_over_budget |= self.share.set(MemoryUse::Names, names).is_err();
        let session = PollSession::new(subscription.clone(), report.version, config, now);
        if let Some(session) = session {
            self.sessions.insert(key, session);
        }
    }

    /// Ends the subscriptions that the client has stopped polling while it polls others.
    fn end_subscriptions(&mut self, now: Instant) {
        let latest = self.sessions.values().map(PollSession::last_poll).max();
        self.sessions
            .retain(|_, session| Some(session.last_poll()) == latest || session.is_polled(now));
    }

    /// Changes to another view: the node is in other groups now. A session must see snapshots of one view only.
    fn follow(&mut self, view: &Arc<View>, config: &Arc<Config>, now: Instant) {
        if Arc::ptr_eq(&self.view, view) {
            return;
        }
        self.view = Arc::clone(view);
        for poll in self.sessions.values_mut() {
            poll.restart(config, now);
        }
    }
}
