//! Open streams: for the status, CSDS, and the limits on streams.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
#[cfg(feature = "etcd")]
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "etcd")]
use std::time::Duration;

use oxds_core::session::Session;
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use tokio_util::sync::CancellationToken;

use super::away::AwayNodes;
use crate::cache::{Answers, Cache, ChangeNotifier, View, Watcher};
use crate::calls::{CallError, Clock, Limits, Peer};
use crate::security::Grant;

/// One open stream: the part that the status, CSDS and authorization share with its driver.
#[derive(Debug)]
pub(crate) struct OpenStream {
    pub(crate) peer: Peer,
    pub(crate) protocol: Protocol,
    /// Time of the call.
    pub(crate) since: Instant,
    /// Cancelled to end the stream: the server shuts down, or the grant of the client has changed.
    pub(crate) end: CancellationToken,
    /// Grant of the client, from the first request on.
    pub(crate) grant: Mutex<Option<Grant>>,
    /// Whether the log has the first denied secret of this stream.
    pub(crate) denial_logged: AtomicBool,
    /// Locked by the stream while it is polled, and by readers for a short time.
    session: Mutex<Session>,
    /// Number of times that the stream was polled: its session stays the same in between.
    polls: AtomicU64,
    /// View of the node, and how far the client is with it, from the first request on.
    watching: Mutex<Option<(Arc<View>, Answers)>>,
}

impl OpenStream {
    pub(crate) fn new(
        peer: Peer,
        protocol: Protocol,
        since: Instant,
        end: CancellationToken,
        session: Session,
    ) -> Self {
        Self {
            peer,
            protocol,
            since,
            end,
            grant: Mutex::default(),
            denial_logged: AtomicBool::new(false),
            session: Mutex::new(session),
            polls: AtomicU64::new(0),
            watching: Mutex::default(),
        }
    }

    /// Sets the view of the node, and how far its client is.
    pub(crate) fn set_watcher(&self, watcher: &Watcher) {
        *lock(&self.watching) = Some((Arc::clone(watcher.view()), watcher.answers()));
    }

    /// The stream was polled, so that its session may have changed.
    pub(crate) fn polled(&self) {
        self.polls.fetch_add(1, Relaxed);
    }

    /// Returns a number that differs from the one of before if the session has changed since, or may change soon.
    #[cfg(feature = "page")]
    pub(crate) fn state(&self) -> StreamState {
        StreamState {
            polls: self.polls.load(Relaxed),
            has_pending: self.answers().is_some_and(|answers| answers.has_pending()),
        }
    }

    /// Returns how far the client is; `None` before the first request.
    pub(super) fn answers(&self) -> Option<Answers> {
        let watching = lock(&self.watching);
        watching.as_ref().map(|(_, answers)| answers.clone())
    }

    /// Returns the view of the node. Before the first request: the view of nodes without a group.
    pub(crate) fn view(&self, cache: &Cache) -> Arc<View> {
        match &*lock(&self.watching) {
            Some((view, _)) => Arc::clone(view),
            None => Arc::clone(cache.root()),
        }
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.session)
    }
}

/// State of a stream, to find those that have not changed.
#[cfg(feature = "page")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamState {
    polls: u64,
    /// A change concerns the stream, and its client has not answered it.
    has_pending: bool,
}

#[cfg(feature = "page")]
impl StreamState {
    /// Whether what a reader saw of the stream in this state holds in another one.
    pub(crate) fn is_as(self, now: Self) -> bool {
        self == now && !now.has_pending
    }
}

/// Locks a mutex. A panic ends its stream; what it leaves behind is only displayed, so poisoning does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registry of the open streams, in the order in which they were opened.
#[derive(Debug)]
pub(crate) struct StreamRegistry {
    entries: Mutex<StreamEntries>,
    /// Locked while `entries` is not.
    away: Mutex<AwayNodes>,
    clock: Clock,
    /// Notified when a stream opens or ends.
    notifier: Arc<ChangeNotifier>,
}

#[derive(Debug, Default)]
struct StreamEntries {
    next: u64,
    open: BTreeMap<u64, Arc<OpenStream>>,
    /// Number of open streams that are not discovery: load reports and CSDS.
    others: usize,
    /// Number of open streams per address.
    peers: HashMap<IpAddr, usize>,
}

impl StreamEntries {
    /// Counts one more stream of an address.
    ///
    /// # Errors
    /// The limit of the server or of the address is reached (S-77).
    fn count(&mut self, peer: IpAddr, limits: &Limits) -> Result<(), CallError> {
        if self.open.len() + self.others >= limits.streams {
            return Err(CallError::TooManyStreams(limits.streams));
        }
        let limit = limits.streams_per_peer;
        let of_peer = self.peers.entry(peer).or_default();
        if *of_peer >= limit {
            return Err(CallError::TooManyStreamsOfPeer { peer, limit });
        }
        *of_peer += 1;
        Ok(())
    }

    fn discount(&mut self, peer: IpAddr) {
        if let Entry::Occupied(mut of_peer) = self.peers.entry(peer) {
            *of_peer.get_mut() -= 1;
            if *of_peer.get() == 0 {
                of_peer.remove();
            }
        }
    }
}

/// Registration of an open stream that is not discovery; deregisters on drop.
#[derive(Debug)]
pub(crate) struct OtherRegistration {
    registry: Arc<StreamRegistry>,
    peer: IpAddr,
}

impl Drop for OtherRegistration {
    fn drop(&mut self) {
        let mut entries = lock(&self.registry.entries);
        entries.others -= 1;
        entries.discount(self.peer);
    }
}

/// Registration of an open stream; deregisters on drop.
#[derive(Debug)]
pub(crate) struct StreamRegistration {
    registry: Arc<StreamRegistry>,
    id: u64,
}

impl StreamRegistry {
    pub(crate) fn new(clock: Clock, notifier: &Arc<ChangeNotifier>) -> Self {
        Self {
            entries: Mutex::default(),
            away: Mutex::default(),
            clock,
            notifier: Arc::clone(notifier),
        }
    }

    /// Registers a stream.
    ///
    /// # Errors
    /// The limit of the server or of the address is reached (S-77).
    pub(crate) fn register(
        self: &Arc<Self>,
        stream: &Arc<OpenStream>,
        limits: &Limits,
    ) -> Result<StreamRegistration, CallError> {
        let mut entries = lock(&self.entries);
        entries.count(stream.peer.address.ip(), limits)?;
        let id = entries.next;
        entries.next += 1;
        entries.open.insert(id, Arc::clone(stream));
        drop(entries);
        self.notifier.notify();
        Ok(StreamRegistration {
            registry: Arc::clone(self),
            id,
        })
    }

    /// Registers a stream that is not discovery. It has no state here, and counts against the same limits.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub(crate) fn register_other(
        self: &Arc<Self>,
        peer: IpAddr,
        limits: &Limits,
    ) -> Result<OtherRegistration, CallError> {
        let mut entries = lock(&self.entries);
        entries.count(peer, limits)?;
        entries.others += 1;
        Ok(OtherRegistration {
            registry: Arc::clone(self),
            peer,
        })
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.entries).open.len()
    }

    /// Returns up to `count` open streams after the one with number `after`, oldest first, with their numbers.
    pub(crate) fn after(&self, after: Option<u64>, count: usize) -> Vec<(u64, Arc<OpenStream>)> {
        let entries = lock(&self.entries);
        let from = after.map_or(0, |after| after.saturating_add(1));
        let streams = entries.open.range(from..).take(count);
        streams.map(|(id, open)| (*id, Arc::clone(open))).collect()
    }

    /// Ends the oldest connections with at most this number of streams in all, one connection at least: their clients
    /// reconnect to any server. Connections that are not older than `age` stay. Returns the number of connections.
    #[cfg(feature = "etcd")]
    pub(crate) fn shed(&self, now: Instant, streams: u64, age: Duration) -> usize {
        let entries = lock(&self.entries);
        let mut of_connection: BTreeMap<SocketAddr, Vec<&Arc<OpenStream>>> = BTreeMap::new();
        for open in entries.open.values() {
            if !open.peer.moving.is_cancelled() {
                of_connection
                    .entry(open.peer.address)
                    .or_default()
                    .push(open);
            }
        }
        let mut old: Vec<_> = of_connection
            .into_values()
            .filter_map(|streams| Some((streams.iter().map(|open| open.since).min()?, streams)))
            .filter(|(since, _)| *since + age < now)
            .collect();
        old.sort_unstable_by_key(|(since, _)| *since);
        let (mut left, mut moved) = (streams, 0);
        for (_, of_connection) in old {
            let count = u64::try_from(of_connection.len()).unwrap_or(u64::MAX);
            if count > left && moved > 0 {
                break;
            }
            left = left.saturating_sub(count);
            moved += 1;
            if let Some(open) = of_connection.first() {
                open.peer.moving.cancel();
            }
            if left == 0 {
                break;
            }
        }
        moved
    }

    /// Returns the nodes whose streams have ended in the last two minutes, with the time of the end. Some may be
    /// connected again.
    pub(crate) fn away(&self, now: Instant) -> Vec<(String, Instant)> {
        let away = lock(&self.away);
        away.at(now)
            .map(|(node, since)| (node.to_owned(), since))
            .collect()
    }

    /// Returns the open streams, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<OpenStream>> {
        let entries = lock(&self.entries);
        entries.open.values().map(Arc::clone).collect()
    }
}

impl StreamRegistration {
    /// Returns the number of the stream, which log lines carry.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for StreamRegistration {
    fn drop(&mut self) {
        let mut entries = lock(&self.registry.entries);
        let Some(stream) = entries.open.remove(&self.id) else {
            return;
        };
        entries.discount(stream.peer.address.ip());
        drop(entries);
        let node = stream.session().node().map(|node| node.id.clone());
        if let Some(node) = node {
            let now = self.registry.clock.now();
            lock(&self.registry.away).note(&node, now);
        }
        self.registry.notifier.notify();
    }
}
