//! What a client leaves to its user, beyond the bootstrap.

use std::time::Duration;

use oxds_core::ads::Protocol;

use crate::transport::Keepalive;

/// How a client behaves. The defaults are gRPC's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How servers are asked: for full states, as gRPC does, unless told. Differences cost what changed, and say at once
    /// that a resource does not exist.
    pub protocol: Protocol,
    /// How long a server may be silent about a resource before it counts as missing: 15 s (gRFC A27).
    pub resource_timeout: Duration,
    /// The largest response that is read: 1 GiB. gRPC's usual 4 MiB are too few for a control plane (C-93); this bounds
    /// what a broken one can make of us. A larger one ends the stream.
    pub most_response_bytes: usize,
    /// How a connection into a black hole is found out: a ping after 5 min, 20 s for its answer.
    pub keepalive: Keepalive,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Sotw,
            resource_timeout: Duration::from_secs(15),
            most_response_bytes: 1 << 30,
            keepalive: Keepalive::default(),
        }
    }
}
