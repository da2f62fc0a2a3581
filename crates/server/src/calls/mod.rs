//! Parts that calls of all services need: the peer, limits and budget, the clock, the client log, and the errors
//! that end it.
//!
//! ```text
//!  request ──▶ hooks_middleware ──▶ metered ──▶ a service ──▶ response
//!                     │                │            │
//!                     ▼                ▼            ▼
//!               Shared: limits, budget, clock, log, metrics   CallError ──▶ status, metric
//! ```

mod budget;
mod client_log;
mod clock;
pub(crate) mod cost;
mod csds_access;
mod decoder;
mod error;
pub(crate) mod hooks_middleware;
mod limits;
pub(crate) mod metered;
mod peer;
mod shared;

#[cfg(test)]
pub(crate) use budget::Budgets;
pub(crate) use budget::{Budget, MemoryShare, MemoryUse, OverBudget};
pub(crate) use client_log::{Admitted, ClientLine, ClientLog};
pub(crate) use clock::Clock;
pub use csds_access::CsdsAccess;
pub(crate) use decoder::Decoder;
pub(crate) use error::{CallError, http_status};
pub use limits::{Limits, Timers};
pub(crate) use peer::Peer;
pub(crate) use shared::Shared;
