//! Connections shared between channels.
//!
//! A pool finds the subchannel of an endpoint by (address, security), and holds it weakly: it lives
//! as long as a channel uses it. So two channels to the same backends share their connections, and
//! an update that leaves an endpoint in place leaves its connections in place.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use oxds_client::transport::Keepalive;
use tokio::runtime::{Handle, Id};

use crate::subchannel::Subchannel;

/// How the connection is secured; part of the key, for connections that differ in it are not the
/// same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub(crate) enum Security {
    Plaintext,
}

/// A subchannel's task runs in the runtime that made it, so others have no use for it.
type Entries = HashMap<(Id, SocketAddr, Security), Weak<Subchannel>>;

/// Subchannels by (address, security). Clones are the same pool.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    entries: Arc<Mutex<Entries>>,
    keepalive: Keepalive,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pool of all channels that are built without one.
    pub(crate) fn of_process() -> Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(Self::new).clone()
    }

    /// An empty pool whose connections are kept alive so.
    pub fn with_keepalive(keepalive: Keepalive) -> Self {
        Self {
            keepalive,
            ..Self::default()
        }
    }

    /// The endpoint's subchannel; an idle one where there was none. Needs a tokio runtime.
    pub(crate) fn subchannel(&self, address: SocketAddr, security: Security) -> Arc<Subchannel> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Handle::current().id(), address, security);
        if let Some(known) = entries.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        // A table about to grow first forgets the dead, so it stays proportional to the living.
        if entries.len() == entries.capacity() {
            entries.retain(|_, subchannel| subchannel.strong_count() > 0);
        }
        let subchannel = Subchannel::spawn(address, self.keepalive);
        entries.insert(key, Arc::downgrade(&subchannel));
        subchannel
    }
}
