//! Metrics of a channel, under the names of gRFC A66, A78, A89, A91, A94 and A96.
//!
//! ```text
//!  RPC ──▶ meters of `attempt` ─────┐
//!  policies, outlier detection ─────┼──▶ ChannelMetrics ──▶ dyn Recorder
//!  subchannels ─▶ SubchannelMetrics ┘    names, labels
//! ```
//!
//! All of it exists only if the channel has a recorder: without one, RPCs read no clock and count nothing. With one, an
//! RPC takes no lock here: the series of its method are found by atomic loads, and bound to the recorder at their first
//! use.

mod channel;
mod subchannel;

pub(crate) use channel::{
    AttemptValues, CallValues, ChannelMetrics, MethodFilter, MethodSeries, locality_label,
};
pub(crate) use subchannel::{DisconnectReason, SubchannelMetrics};
