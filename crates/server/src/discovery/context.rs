//! State that all discovery calls share.

use std::fmt;
use std::sync::Arc;

use oxds_core::session::Config;

use super::clients::Clients;
use crate::cache::Cache;
use crate::not_representable::NotRepresentableLog;
use crate::rollback::RollbackDriver;
use crate::server::Shared;

/// State that a discovery call needs.
pub(crate) struct Context {
    /// The state that calls of any service need.
    pub(crate) server: Arc<Shared>,
    pub(crate) cache: Cache,
    pub(crate) config: Arc<Config>,
    /// Streams and poll clients.
    pub(crate) clients: Clients,
    pub(crate) rollback: RollbackDriver,
    pub(crate) not_representable: NotRepresentableLog,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("server", &self.server)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
