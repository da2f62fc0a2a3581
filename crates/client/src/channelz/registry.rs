//! Registry of channels and servers, and the traits of its entries.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use oxds_core::lb::Connectivity;
use oxds_net::transport::SocketAddresses;

use super::counter::{CallCounter, Calls};

/// Id of a channel, subchannel, socket or server: unique in the process and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub(crate) i64);

impl Id {
    /// Returns a new id.
    #[must_use]
    pub fn next() -> Self {
        static LAST: AtomicI64 = AtomicI64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns the id as the channelz service reports it: 1 or more.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// A channel that channelz reports.
pub trait ChannelEntry: Send + Sync {
    /// Returns the id, which must not change.
    fn id(&self) -> Id;

    /// Returns its current state and call counts.
    fn snapshot(&self) -> ChannelSnapshot;

    /// Returns its current subchannels.
    fn subchannels(&self) -> Vec<Arc<dyn SubchannelEntry>>;
}

/// A subchannel that channelz reports: an endpoint and its connections.
pub trait SubchannelEntry: Send + Sync {
    /// Returns the id, which must not change.
    fn id(&self) -> Id;

    /// Returns its current state and call counts.
    fn snapshot(&self) -> ChannelSnapshot;

    /// Returns its current connections.
    fn sockets(&self) -> Vec<Arc<dyn SocketEntry>>;
}

/// A connection that channelz reports.
pub trait SocketEntry: Send + Sync {
    /// Returns the id, which must not change.
    fn id(&self) -> Id;

    /// Returns its local and remote address.
    fn addresses(&self) -> SocketAddresses;

    /// Returns the counts of its streams. As channelz defines it, a stream has succeeded if the peer ended it, with any
    /// status.
    fn streams(&self) -> Calls;
}

/// State and call counts of a channel or subchannel at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSnapshot {
    /// Target URI of a channel, or address of a subchannel.
    pub target: String,
    /// Connectivity state.
    pub state: Connectivity,
    /// Calls since its creation.
    pub calls: Calls,
    /// Time of its creation.
    pub created: SystemTime,
}

/// Channels and servers that channelz reports. Clones share one registry.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<Mutex<Entries>>,
}

/// Data of a server that channelz reports.
#[derive(Debug)]
pub(crate) struct ServerRecord {
    pub(crate) id: Id,
    pub(crate) name: String,
    /// Id of its listening socket, and the address of that socket.
    pub(crate) listens: (Id, SocketAddr),
    pub(crate) calls: CallCounter,
}

#[derive(Default)]
struct Entries {
    channels: BTreeMap<Id, Weak<dyn ChannelEntry>>,
    servers: BTreeMap<Id, Weak<ServerRecord>>,
}

impl Registry {
    /// Registers a channel until it is dropped.
    pub fn add<C: ChannelEntry + 'static>(&self, channel: &Arc<C>) {
        let known: Weak<C> = Arc::downgrade(channel);
        let channels = &mut self.lock().channels;
        // Dropped channels are removed when another is added, so the registry is never much larger than what is alive.
        channels.retain(|_, known| known.strong_count() > 0);
        channels.insert(channel.id(), known);
    }

    /// Adds a server until it is dropped.
    pub(super) fn add_server(&self, server: &Arc<ServerRecord>) {
        let servers = &mut self.lock().servers;
        servers.retain(|_, known| known.strong_count() > 0);
        servers.insert(server.id, Arc::downgrade(server));
    }

    /// Returns the live channels with this id or a higher one, in order.
    pub(crate) fn channels(&self, start: i64) -> Vec<Arc<dyn ChannelEntry>> {
        let entries = self.lock();
        let from = entries.channels.range(Id(start)..);
        from.filter_map(|(_, channel)| channel.upgrade()).collect()
    }

    /// Returns the live servers with this id or a higher one, in order.
    pub(crate) fn servers(&self, start: i64) -> Vec<Arc<ServerRecord>> {
        let entries = self.lock();
        let from = entries.servers.range(Id(start)..);
        from.filter_map(|(_, server)| server.upgrade()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.lock();
        f.debug_struct("Registry")
            .field("channels", &entries.channels.len())
            .field("servers", &entries.servers.len())
            .finish()
    }
}
