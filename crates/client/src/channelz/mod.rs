//! Channelz: what a process's channels, connections and servers are doing (gRFC A14), for `grpcdebug` and its like.
//!
//! ```text
//!  ClientPool ─► Registry ─► Channel ─► Subchannel ─► Socket      numbered; found by walking
//!                    └─────► Server
//! ```
//! The registry of a [`ClientPool`](crate::ClientPool) knows the channels that were built with it (`oxds-channel` does
//! that) and the servers that the application [registers](Registry::server). It holds them weakly: what has ended is not
//! shown.
//!
//! | shown | counted where |
//! |---|---|
//! | calls of a channel, and of a subchannel | at their start and at their end, by atomics; no lock, no clock |
//! | streams of a socket | those under way, and by how they ended |
//! | calls of a server | at their start and at their end |
//! | messages, keepalives, flow control, times of the last call | not at all: they would cost each call a clock or each frame a look. They are 0, the epoch, and −1 for windows; `grpcdebug` fails where they are absent |

mod count;
pub mod message;
mod server;
mod service;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use oxds_core::lb::Connectivity;

pub use count::{CallCounter, Calls, Ended};
pub use server::{Counted, CountedBody, Server};
pub use service::Channelz;

use crate::transport::Ends;

/// The number of something that is shown; unique in the process, and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(i64);

impl Id {
    /// The next one.
    #[must_use]
    pub fn next() -> Self {
        static LAST: AtomicI64 = AtomicI64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// As the service tells it: 1 or more.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// Something that calls are made on: a channel with its subchannels.
pub trait Channel: Send + Sync {
    /// Its number.
    fn id(&self) -> Id;

    /// How it is now.
    fn node(&self) -> Node;

    /// What is below it now.
    fn subchannels(&self) -> Vec<Arc<dyn Subchannel>>;
}

/// An endpoint, and the connections to it.
pub trait Subchannel: Send + Sync {
    /// Its number.
    fn id(&self) -> Id;

    /// How it is now.
    fn node(&self) -> Node;

    /// Its connections now.
    fn sockets(&self) -> Vec<Arc<dyn Socket>>;
}

/// A connection.
pub trait Socket: Send + Sync {
    /// Its number.
    fn id(&self) -> Id;

    /// Its two ends.
    fn ends(&self) -> Ends;

    /// The streams on it: those succeeded that the other end has ended, whatever it said.
    fn streams(&self) -> Calls;
}

/// A channel or a subchannel at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is to.
    pub target: String,
    /// Where it stands.
    pub state: Connectivity,
    /// Its calls so far.
    pub calls: Calls,
    /// When it was made.
    pub created: SystemTime,
}

/// The channels and servers that are shown. Clones are the same registry.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    channels: BTreeMap<Id, Weak<dyn Channel>>,
    servers: BTreeMap<Id, Weak<server::Shared>>,
}

impl Registry {
    /// Shows a channel for as long as it lives.
    pub fn add<C: Channel + 'static>(&self, channel: &Arc<C>) {
        let known: Weak<C> = Arc::downgrade(channel);
        let channels = &mut self.lock().channels;
        // What has ended leaves when something comes, so that the registry stays as large as what lives.
        channels.retain(|_, known| known.strong_count() > 0);
        channels.insert(channel.id(), known);
    }

    /// The channels that live, from this number on.
    fn channels(&self, start: i64) -> Vec<Arc<dyn Channel>> {
        let entries = self.lock();
        let from = entries.channels.range(Id(start)..);
        from.filter_map(|(_, channel)| channel.upgrade()).collect()
    }

    fn servers(&self, start: i64) -> Vec<Arc<server::Shared>> {
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
