//! Connections shared between channels.
//!
//! A pool finds the subchannel of an endpoint by (address, security), and holds it weakly: the
//! subchannel lives as long as a channel uses it. So two channels to the same backends share their
//! connections, and an update that keeps an endpoint also keeps its connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use oxds_net::transport::Keepalive;
use tokio::runtime::{Handle, Id};

use crate::security::Security;
use crate::subchannel::Subchannel;

/// Subchannels by runtime, address and security. The task of a subchannel runs in the runtime that
/// created it, so channels of other runtimes need their own.
type Entries = HashMap<(Id, SocketAddr, Security), Weak<Subchannel>>;

/// Connections that several channels share, by address and security of the endpoint.
///
/// Clones share their connections. A connection stays open while a channel uses it; the pool itself
/// keeps none open.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    entries: Arc<Mutex<Entries>>,
    keepalive: Keepalive,
}

impl Pool {
    /// Returns an empty pool whose connections use the default keepalive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the pool of all channels that are built without one.
    pub(crate) fn of_process() -> Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(Self::new).clone()
    }

    /// Returns an empty pool whose connections use this keepalive.
    pub fn with_keepalive(keepalive: Keepalive) -> Self {
        Self {
            keepalive,
            ..Self::default()
        }
    }

    /// Returns whether a channel uses the endpoint's subchannel. Needs a tokio runtime.
    pub(crate) fn contains(&self, address: SocketAddr, security: &Security) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Handle::current().id(), address, security.clone());
        let known = entries.get(&key);
        known.is_some_and(|subchannel| subchannel.strong_count() > 0)
    }

    /// Returns the number of subchannels that channels use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = entries.values().filter(|one| one.strong_count() > 0);
        in_use.count()
    }

    /// Returns the endpoint's subchannel, or creates an idle one. Needs a tokio runtime.
    pub(crate) fn subchannel(&self, address: SocketAddr, security: &Security) -> Arc<Subchannel> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Handle::current().id(), address, security.clone());
        if let Some(existing) = entries.get(&key).and_then(Weak::upgrade) {
            return existing;
        }
        // Remove dropped subchannels before the table grows: its size follows those in use.
        if entries.len() == entries.capacity() {
            entries.retain(|_, subchannel| subchannel.strong_count() > 0);
        }
        let subchannel = Subchannel::spawn(address, security.clone(), self.keepalive);
        entries.insert(key, Arc::downgrade(&subchannel));
        subchannel
    }
}
