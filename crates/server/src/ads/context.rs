//! What a server's streams share.

use std::fmt;
use std::sync::Arc;

use oxds_core::session::Config;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::streams::Streams;
use crate::cache::Cache;
use crate::clients::Polls;
use crate::hooks::AnyHooks;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::on_nack::Reaction;
use crate::security::Security;
use crate::withheld::Withheld;

/// What all streams of a server share.
pub(crate) struct Context {
    pub(crate) cache: Cache,
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Limits,
    pub(crate) security: Security,
    pub(crate) hooks: Option<Arc<dyn AnyHooks>>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) polls: Arc<Polls>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) withheld: Withheld,
    pub(crate) clock: Clock,
    /// Cancelled when the server begins to shut down.
    pub(crate) closing: CancellationToken,
    pub(crate) on_nack: Reaction,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("config", &self.config)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
