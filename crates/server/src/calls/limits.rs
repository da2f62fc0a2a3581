//! Limits of connections, streams and requests (S-77).

use std::time::Duration;

/// Limits of a server. The limits on names and resource types are in [`oxds_core::session::Config`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one request. A client that reconnects lists all its resources: 64 MiB are a million resources.
    pub message_bytes: usize,
    /// Bytes of the node in a request, as encoded. Envoy's list of extensions is the largest part, and over REST, as
    /// JSON, it takes more than 64 KiB. Every client costs its node for as long as it is
    /// connected, in memory several times the encoded size.
    pub node_bytes: usize,
    /// Bytes of `node.id`, which every log line and every status of the client has.
    pub node_id_bytes: usize,
    /// Estimated bytes that the calls of one connection may make the server keep: requests being received, nodes,
    /// names, NACK texts, responses of CSDS. Over it, the call that needs the most ends with `RESOURCE_EXHAUSTED`. The
    /// default has room for one request of the largest size, decoded.
    pub connection_bytes: usize,
    /// The same for all clients together. The default has room for 100,000 clients with 10 KiB each.
    pub client_bytes: usize,
    /// Open connections per port. The server closes a connection beyond the limit.
    pub connections: usize,
    /// Open streams of the server: discovery, load reports and CSDS.
    pub streams: usize,
    /// Open streams per IP address. Behind one address there may be a node with many clients, or many nodes.
    pub streams_per_peer: usize,
    /// Concurrent calls per connection (`SETTINGS_MAX_CONCURRENT_STREAMS`). gRPC's C-core shares one connection between
    /// all targets of a process, with a stream for each, and a stream beyond this limit waits without an error. So the
    /// default is that of `streams_per_peer`: peers are limited, and a connection has its budget of bytes.
    pub streams_per_connection: u32,
    /// Requests per second that the server reads from one stream. HTTP/2 flow control holds the rest back.
    pub request_rate: u32,
    /// Requests of one stream that are read before `request_rate` applies. A client that reconnects may subscribe to
    /// each of its names in a separate request, and acknowledge each response.
    pub request_burst: u32,
    /// Times of connections, streams and polls.
    pub timers: Timers,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
            node_bytes: 256 << 10,
            node_id_bytes: 1 << 10,
            connection_bytes: 256 << 20,
            client_bytes: 1 << 30,
            connections: 100_000,
            streams: 100_000,
            streams_per_peer: 20_000,
            streams_per_connection: 20_000,
            request_rate: 1_000,
            request_burst: 20_000,
            timers: Timers::default(),
        }
    }
}

/// Times of connections, streams and polls, a part of [`Limits`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timers {
    /// Time from the start of a connection to its first call, from the start of a stream to its first request, and from
    /// the start of a poll to the end of its body. Clients send a request as soon as they are connected.
    pub first_request: Duration,
    /// Idle time after which the server sends an HTTP/2 PING.
    pub keepalive: Duration,
    /// Time to answer that PING; then the server closes the connection.
    pub keepalive_timeout: Duration,
    /// Age of a connection at which the server asks the client to make another one, ± 10 %: GOAWAY, and the end of its
    /// streams. So clients spread over the replicas behind one name. `None`: never.
    pub connection_age: Option<Duration>,
    /// Time that a `Fetch` or a REST poll waits for a change, unless the client sends `Prefer: wait=N`. Envoy's default
    /// timeout for a REST request is one second.
    pub poll_hold: Duration,
    /// Upper bound of `Prefer: wait=N`.
    pub poll_hold_max: Duration,
    /// Time for connections to end after a shutdown has begun (S-79).
    pub drain: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            first_request: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            connection_age: None,
            poll_hold: Duration::from_millis(800),
            poll_hold_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}
