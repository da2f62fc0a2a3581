//! What a server grants its clients (S-77).

use std::time::Duration;

/// Limits of a server. What concerns names and kinds is in [`oxds_core::session::Config`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one request. A client that reconnects lists all that it holds: 64 MiB are a million resources.
    pub message_bytes: usize,
    /// ADS streams at once.
    pub streams: usize,
    /// ADS streams at once on one connection. A client needs one per xDS server.
    pub streams_per_connection: u32,
    /// How long a stream may be open before its first request; clients ask as soon as they have one.
    pub first_request: Duration,
    /// After this much silence a connection is asked for a sign of life …
    pub keepalive: Duration,
    /// … and closed when none comes within this.
    pub keepalive_timeout: Duration,
    /// How long a `Fetch` or a REST poll waits for a change, unless it says itself how long (`Prefer: wait=N`). Envoy
    /// gives a REST request one second by default.
    pub poll_hold: Duration,
    /// … and how long at most, if it does.
    pub poll_hold_max: Duration,
    /// How long connections may take to end after a shutdown began (S-79).
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
            streams: 100_000,
            streams_per_connection: 128,
            first_request: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            poll_hold: Duration::from_millis(800),
            poll_hold_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}
