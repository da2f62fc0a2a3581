//! Poll clients: clients without a stream, by `Fetch*` or REST.
//!
//! Each is represented by one SotW session per resource type, which follows what the client is sent. The next poll
//! answers for the client:
//!
//! ```text
//!  poll with the version of the last response ──▶ ACK
//!  poll with error_detail                     ──▶ NACK
//!  poll without a version                     ──▶ new session: the client has restarted
//!  poll for other resources                   ──▶ new session
//!  no poll for two minutes                    ──▶ the client is removed
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use oxds_core::session::{Config, Event, Nonce, Progress, Session};
use oxds_core::snapshot::{Revision, Snapshot};
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, Node, Status};
use oxds_types::{ResourceType, Version};

use super::nack::ReportedNack;
use super::streams::lock;
use super::subscription::PollSubscription;
use crate::cache::{Cache, View};

/// Time without a poll after which a client is removed: twice the longest hold of a poll.
const MAX_IDLE: Duration = Duration::from_secs(120);

/// Upper bound of poll clients (S-60). Clients beyond it, and clients without a node id, get answers but no session.
const MAX_CLIENTS: usize = 10_000;

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
    clients: Mutex<PollEntries>,
}

type PollEntries = BTreeMap<(String, PollKind), PollClient>;

/// A client that polls, by `Fetch*` or REST.
#[derive(Debug)]
pub(super) struct PollClient {
    pub(super) node: Node,
    /// Time of the first poll.
    pub(super) since: Instant,
    last_poll: Instant,
    /// View of the node, which `sessions` have seen.
    view: Arc<View>,
    sessions: BTreeMap<ResourceType, PollSession>,
}

/// Session of one resource type.
#[derive(Debug)]
struct PollSession {
    session: Session,
    subscription: PollSubscription,
    /// Nonce of the response that the client has not answered.
    outstanding: Option<Nonce>,
    /// `version_info` of the last response.
    version: Option<Version>,
    /// Revision of the last snapshot that the session has seen.
    seen: Revision,
}

/// Effects of a poll on its session.
#[derive(Debug)]
pub(crate) struct HandledPoll {
    /// The ACK or the NACK of the last response, if there is one.
    pub(crate) events: Vec<Event>,
    pub(crate) nacks: Vec<ReportedNack>,
}

impl PollClients {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            clients: Mutex::default(),
        }
    }

    /// Handles the part of a poll that answers the last response. Returns `None` for a client without a node id, and for
    /// one beyond the limit.
    pub(crate) fn handle_request(
        &self,
        now: Instant,
        poll: ClientPoll<'_>,
        version: &str,
        error: Option<&Status>,
    ) -> Option<HandledPoll> {
        let ClientPoll {
            kind,
            node,
            subscription,
            view,
        } = poll;
        let node = node.filter(|node| !node.id.is_empty())?;
        let mut clients = self.lock(now);
        let key = (node.id.clone(), kind);
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
            return None;
        }
        let client = clients.entry(key).or_insert_with(|| PollClient {
            node: node.clone(),
            since: now,
            last_poll: now,
            view: Arc::clone(view),
            sessions: BTreeMap::new(),
        });
        client.last_poll = now;
        client.follow(view, &self.config, now);
        // xDS protocol, "ACK/NACK and versioning": the first request has an empty version. The client has restarted.
        let restarted = version.is_empty() && error.is_none();
        let mut handled = HandledPoll {
            events: Vec::new(),
            nacks: Vec::new(),
        };
        match client.sessions.get_mut(&subscription.resource_type) {
            Some(known) if !restarted && known.subscription == *subscription => {
                handled.events = known.handle_answer(now, version, error);
                handled.nacks = known.reported_nacks(&handled.events);
            }
            // Another subscription of the same type: Envoy polls each EDS cluster by itself, with one node id for all.
            _ => client.begin(subscription, &self.config, now),
        }
        Some(handled)
    }

    /// Records that the client is sent the content of `snapshot`, in this version.
    pub(crate) fn record_sent(
        &self,
        now: Instant,
        poll: ClientPoll<'_>,
        version: Version,
        snapshot: &Snapshot,
    ) {
        self.update(now, poll, snapshot, |poll| {
            if poll.outstanding.is_some() {
                if poll.version == Some(version) {
                    // The same response again: the client lost it.
                    return;
                }
                poll.restart(&self.config, now);
            }
            poll.transmit(now, snapshot);
            poll.version = Some(version);
        });
    }

    /// Records that the client has the content of `snapshot`, in this version.
    pub(crate) fn record_current(
        &self,
        now: Instant,
        poll: ClientPoll<'_>,
        version: Version,
        snapshot: &Snapshot,
    ) {
        self.update(now, poll, snapshot, |poll| {
            // The version is a content hash (S-29), so it shows what the client has, whichever server has sent it.
            poll.accept(now, snapshot);
            // The client has what it rejected before: the session would wait for a change.
            if poll.progress(snapshot) == Some(Progress::Nacked) {
                poll.restart(&self.config, now);
                poll.accept(now, snapshot);
            }
            poll.version = Some(version);
        });
    }

    /// Updates the session of a client. A session for another subscription is replaced.
    ///
    /// Polls of one client may overlap. A session must not see an older snapshot than before, or one of another view, so
    /// the slower poll has no effect.
    fn update(
        &self,
        now: Instant,
        poll: ClientPoll<'_>,
        snapshot: &Snapshot,
        update: impl FnOnce(&mut PollSession),
    ) {
        let Some(node) = poll.node else { return };
        let mut clients = self.lock(now);
        let Some(client) = clients.get_mut(&(node.id.clone(), poll.kind)) else {
            return;
        };
        if !Arc::ptr_eq(&client.view, poll.view) {
            return;
        }
        client.last_poll = now;
        let resource_type = &poll.subscription.resource_type;
        let known = client.sessions.get(resource_type);
        if known.is_none_or(|known| known.subscription != *poll.subscription) {
            client.begin(poll.subscription, &self.config, now);
        }
        if let Some(session) = client.sessions.get_mut(resource_type)
            && session.seen <= snapshot.revision()
        {
            session.seen = snapshot.revision();
            update(session);
        }
    }

    /// Calls `see` for every client with the snapshot that its node sees.
    pub(super) fn each(
        &self,
        cache: &Cache,
        now: Instant,
        mut see: impl FnMut(PollKind, &PollClient, &Snapshot),
    ) {
        for ((_, kind), client) in &mut *self.lock(now) {
            let view = cache.view(&client.node);
            client.follow(&view, &self.config, now);
            see(*kind, client, &view.snapshot());
        }
    }

    /// Returns the number of poll clients.
    pub(crate) fn len(&self, now: Instant) -> usize {
        self.lock(now).len()
    }

    /// Locks the registry, and removes the clients that poll no more.
    fn lock(&self, now: Instant) -> MutexGuard<'_, PollEntries> {
        let mut clients = lock(&self.clients);
        clients.retain(|_, client| now - client.last_poll < MAX_IDLE);
        clients
    }
}

impl PollClient {
    /// Returns the sessions, one per resource type.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&ResourceType, &Session)> {
        let sessions = self.sessions.iter();
        sessions.map(|(resource_type, poll)| (resource_type, &poll.session))
    }

    /// Opens a session for a subscription.
    fn begin(&mut self, subscription: &PollSubscription, config: &Arc<Config>, now: Instant) {
        if let Some(poll) = PollSession::new(subscription.clone(), config, now) {
            self.sessions
                .insert(subscription.resource_type.clone(), poll);
        }
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

impl PollSession {
    /// Returns `None` for a subscription that a session does not accept. Those of checked requests are.
    fn new(subscription: PollSubscription, config: &Arc<Config>, now: Instant) -> Option<Self> {
        let (session, _) = subscription.open(config, now).ok()?;
        Some(Self {
            session,
            subscription,
            outstanding: None,
            version: None,
            seen: Revision::UNLOADED,
        })
    }

    /// Forgets what the client was sent.
    fn restart(&mut self, config: &Arc<Config>, now: Instant) {
        if let Some(new) = Self::new(self.subscription.clone(), config, now) {
            *self = new;
        }
    }

    /// Turns the poll into an ACK or a NACK. A poll says it once: the next one with the same content repeats it.
    fn handle_answer(&mut self, now: Instant, version: &str, error: Option<&Status>) -> Vec<Event> {
        // xDS protocol, "REST-JSON polling subscriptions": one request is outstanding at a time, so the nonce is optional,
        // and the version tells what the client accepted. `error_detail` alone makes a NACK, as on a stream (S-17).
        let accepted = self.version.is_some_and(|sent| *sent.as_str() == *version);
        if error.is_none() && !accepted {
            return Vec::new();
        }
        self.answer(now, error.cloned())
    }

    /// Answers the outstanding response, if there is one.
    fn answer(&mut self, now: Instant, error: Option<Status>) -> Vec<Event> {
        let Some(nonce) = self.outstanding.take() else {
            return Vec::new();
        };
        let request = DiscoveryRequest {
            response_nonce: nonce.to_string(),
            error_detail: error,
            ..self.subscription.request()
        };
        // The session has accepted the same subscription before, so it has no error to report.
        let _ = self.session.handle_request(now, request.into());
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    fn reported_nacks(&self, events: &[Event]) -> Vec<ReportedNack> {
        let mut nacks = Vec::new();
        for event in events {
            if let Event::Nacked {
                resource_type,
                resources,
                ..
            } = event
            {
                let names = resources.clone();
                nacks.extend(ReportedNack::of_session(
                    &self.session,
                    resource_type,
                    names,
                ));
            }
        }
        nacks
    }

    /// Lets the session transmit; the caller sends the content.
    fn transmit(&mut self, now: Instant, snapshot: &Snapshot) {
        if let Some(sent) = self.session.poll_transmit(now, snapshot) {
            self.outstanding = Some(sent.nonce);
        }
    }

    /// Brings the session to the state of a client that has accepted all of `snapshot`.
    fn accept(&mut self, now: Instant, snapshot: &Snapshot) {
        loop {
            self.answer(now, None);
            self.transmit(now, snapshot);
            if self.outstanding.is_none() {
                return;
            }
        }
    }

    fn progress(&self, snapshot: &Snapshot) -> Option<Progress> {
        let resource_type = &self.subscription.resource_type;
        self.session.progress(resource_type, snapshot)
    }
}
