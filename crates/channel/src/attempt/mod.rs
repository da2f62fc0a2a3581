//! One attempt of an RPC: what counts it from its pick to its end, and the status with which it fails.
//!
//! ```text
//!              CallRecorder ──▶ AttemptGuard ──▶ load, circuit breaker, outlier detection, policy, channelz
//!                    └────────▶ CallMeter ─────▶ AttemptMeter ──▶ metrics of the channel
//! ```

mod call_meter;
mod count;
mod guard;
mod meter;
pub(crate) mod non_grpc;
mod picked;
pub(crate) mod status;

pub(crate) use call_meter::Retried;
pub(crate) use count::CallRecorder;
pub(crate) use guard::{AttemptEnd, AttemptGuard, AttemptObserver, outcome_of};
pub use picked::{Dropped, Picked};
