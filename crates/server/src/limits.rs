//! What a server grants its clients (S-77).

use std::time::Duration;

/// Limits of a server. What concerns names and kinds is in [`oxds_core::session::Config`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one request. A client that reconnects lists all that it holds: 64 MiB are a million resources.
    pub message_bytes: usize,
    /// Connections at once, to either port; one more is closed.
    pub connections: usize,
    /// Streams of discovery at once.
    pub streams: usize,
    /// … and of one address, behind which there may be a node with many clients, or many nodes.
    pub streams_per_peer: usize,
    /// Calls at once on one connection. A client needs one per xDS server.
    pub streams_per_connection: u32,
    /// Requests per second that are read from one stream; the rest waits in the transport, where flow control bounds it.
    pub request_rate: u32,
    /// … and how many before that holds: a client that comes back with that many names may ask for each by itself,
    /// and acknowledge each.
    pub request_burst: u32,
    /// How long a connection may take to its first call, a stream to its first request, and a poll to the end of its
    /// body; clients ask as soon as they have one.
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
            connections: 100_000,
            streams: 100_000,
            streams_per_peer: 20_000,
            streams_per_connection: 128,
            request_rate: 1_000,
            request_burst: 20_000,
            first_request: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            poll_hold: Duration::from_millis(800),
            poll_hold_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}
