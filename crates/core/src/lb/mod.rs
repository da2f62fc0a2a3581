//! Which route, cluster, priority, locality and endpoint serve an RPC: pure functions.
//!
//! ```text
//!  request ─ RouteMatcher ─► route ─ Weighted ─► cluster ─ DropCategory ─► Priorities ─► locality ─ Weighted ─► endpoint
//!                 │                     │            │          (state machine)                │
//!             random u64            random u64   random u64s                               random u64
//! ```
//!
//! Randomness comes in as numbers, connectivity as values, time as [`Instant`](crate::time::Instant)s; nothing
//! allocates, locks or waits. The parts are immutable once built, but for [`Priorities`], the one state machine.
//!
//! It does not connect, hold connections or know what an RPC is: that is `oxds-channel`.

mod chance;
mod deadline;
mod domain;
mod matcher;
mod priorities;
mod text;
mod weighted;

pub use chance::{DropCategory, PerMillion, dropped};
pub use deadline::stream_limit;
pub use domain::{Domain, choose_virtual_host};
pub use matcher::{HeaderMatch, HeaderMatcher, Headers, PathMatcher, RouteMatcher};
pub use priorities::{ActivePriority, Priorities};
pub use text::Text;
pub use weighted::Weighted;

/// The state of something that connects, as a balancer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Connectivity {
    /// Not connected, and not trying to be.
    Idle,
    /// On the way; RPCs wait.
    Connecting,
    /// RPCs may go.
    Ready,
    /// Tried and failed; RPCs fail until it is ready again.
    TransientFailure,
}

impl Connectivity {
    /// The state of a round robin over endpoints in these states (gRFC A61): ready if one is, failed only if all
    /// are. Of no endpoints at all: failed.
    #[must_use]
    pub fn of_round_robin(states: impl IntoIterator<Item = Self>) -> Self {
        let mut of_all = Self::TransientFailure;
        for state in states {
            match state {
                Self::Ready => return Self::Ready,
                Self::Connecting => of_all = Self::Connecting,
                // Round robin connects whatever is idle.
                Self::Idle if of_all == Self::TransientFailure => of_all = Self::Connecting,
                Self::Idle | Self::TransientFailure => {}
            }
        }
        of_all
    }
}
