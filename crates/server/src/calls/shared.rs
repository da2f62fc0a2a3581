//! State that all calls and connections of a server share.

use std::fmt;
use std::sync::Arc;

use oxds_types::ApiVersion;
use oxds_types::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::client_log::ClientLog;
use super::clock::Clock;
use super::csds_access::CsdsAccess;
use super::limits::Limits;
use crate::hooks::AnyHooks;
use crate::metrics::Metrics;
use crate::security::{HttpSecurity, Security};

/// State that calls of every service and all connections share.
///
/// Discovery calls need more: see [`Context`](crate::context::Context).
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    /// Bytes that all clients make the server keep.
    pub(crate) budget: Arc<Budget>,
    /// Clients that CSDS answers.
    pub(crate) csds: CsdsAccess,
    pub(crate) security: Security,
    pub(crate) http_security: HttpSecurity,
    pub(crate) hooks: Option<Arc<dyn AnyHooks>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) runtime: Runtime,
    /// Oldest major of the API that clients may use.
    pub(crate) oldest_api: ApiVersion,
    /// Limits of the log lines that clients can cause.
    pub(crate) log: ClientLog,
    /// Cancelled when the server begins to shut down.
    pub(crate) closing: CancellationToken,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
