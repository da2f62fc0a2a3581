//! Load balancing: the route, cluster, priority, locality and endpoint of a request, chosen by pure functions.
//!
//! ```text
//!  request ─ RouteMatcher ─► route ─ Weighted ─► cluster ─ DropCategory ─► Priorities ─► locality ─ Weighted ─► endpoint
//!                 │                     │              │          (state machine)                │
//!             random u64            random u64     random u64s                               random u64
//! ```
//!
//! Random numbers, connectivity states and [`Instant`](crate::time::Instant)s are arguments. Nothing allocates, locks
//! or waits. All parts are immutable once built, except the state machines [`Priorities`], [`OutlierDetector`] and
//! [`Retries`], and the counters [`RequestCount`] and [`CallResults`], which are atomics.
//!
//! It does not connect, hold connections or send RPCs: that is `oxds-channel`.

mod chance;
mod domain;
mod fault;
mod hash;
mod health;
mod limit;
mod matcher;
mod outlier;
pub mod policy;
mod priorities;
mod report_stream;
mod retry;
mod session;
mod string_matcher;
mod text;
mod weighted;

pub use chance::{DropCategory, PerMillion, dropped};
pub use domain::Domain;
pub(crate) use domain::{DomainIndex, best_domain};
pub use fault::{AbortStatus, FaultAbort, FaultConfig, FaultDelay, FaultShare, Faults};
pub use hash::{HashPolicy, HashSource, Rewrite, request_hash};
pub use health::{EndpointHealth, HealthSet};
pub use limit::{RequestCount, RequestPermit};
#[cfg(feature = "explain")]
pub(crate) use matcher::visible;
pub use matcher::{HeaderMatch, HeaderMatcher, Headers, Mismatch, PathMatcher, RouteMatcher};
pub use outlier::{
    CallResults, Ejection, EjectionReason, FailurePercentage, OutlierConfig, OutlierCounts,
    OutlierDecisions, OutlierDetector, SuccessRate,
};
pub use priorities::{ActivePriority, Connectivity, Priorities};
pub use report_stream::ReportStream;
pub use retry::{MAX_ATTEMPTS, Pushback, Retries, RetryPolicy, StatusCodes};
pub use session::{HostChoice, HostState, SessionConfig, SessionTarget, choose_host};
pub use string_matcher::StringMatcher;
pub use text::Text;
pub use weighted::Weighted;
