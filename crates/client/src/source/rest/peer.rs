//! One URL that is polled.

use oxds_core::poll::PollTiming;

use crate::bootstrap::Server;

/// A URL that polls are posted to, and how often.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestPeer {
    pub(crate) server: Server,
    pub(crate) path: String,
    pub(crate) pace: PollTiming,
}
