//! The link from a store back to the server that it feeds.

use std::fmt;
use std::sync::Arc;

use super::connection::Connection;
use super::health::Health;
use crate::cache::Cache;

/// A handle to the server that a store feeds. A store receives it by [`Store::link`](super::Store::link).
#[derive(Clone)]
pub struct ServerLink {
    health: Arc<Health>,
    cache: Cache,
}

impl ServerLink {
    pub(crate) fn new(health: Arc<Health>, cache: Cache) -> Self {
        Self { health, cache }
    }

    /// Reports how the store is connected. Costs nothing if that is as before.
    pub fn report(&self, connection: Connection) {
        if self.health.set_connection(connection) {
            self.cache.notifier().notify();
        }
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").finish_non_exhaustive()
    }
}
