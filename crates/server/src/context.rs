//! State that all discovery calls share.

use std::fmt;
use std::sync::Arc;

use oxds_core::session::Config;
use oxds_types::{ApiVersion, ResourceType};
use tracing::warn;

use crate::cache::Cache;
use crate::calls::{Admitted, CallError, ClientLine, Peer, Shared};
use crate::clients::Clients;
use crate::not_representable::NotRepresentableLog;
use crate::rollback::RollbackDriver;

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

impl Context {
    /// Checks that a service of this major may be called.
    pub(crate) fn check_api(&self, api: ApiVersion, peer: &Peer) -> Result<(), CallError> {
        let server = &self.server;
        if api >= server.oldest_api {
            return Ok(());
        }
        let admitted = server.log.admit(ClientLine::OldApi, server.clock.now());
        if let Some(Admitted { suppressed }) = admitted {
            warn!(%peer, ?api, suppressed, "client of a major that is not served");
        }
        Err(CallError::OldApi(api, server.oldest_api))
    }

    /// Checks the major of a type URL. The transport and its resources may have different ones (gRFC A30).
    pub(crate) fn check_api_of(&self, type_url: &str, peer: &Peer) -> Result<(), CallError> {
        if self.server.oldest_api == ApiVersion::V2 {
            return Ok(());
        }
        match ResourceType::from_type_url(type_url) {
            Some((_, api)) => self.check_api(api, peer),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("server", &self.server)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
