//! Behaviour of the streams of a swarm.

use std::time::Duration;

use oxds_core::snapshot::Protocol;
use oxds_types::ResourceType;
use tokio_rustls::TlsConnector;

/// Behaviour of the streams of a swarm.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) resource_type: ResourceType,
    pub(crate) protocol: Protocol,
    /// Streams per connection; a real client has its own connection.
    pub(crate) per_connection: usize,
    /// Delay of an answer: the round trip.
    pub(crate) answer_after: Duration,
    /// TLS configuration, if the scenario uses TLS.
    pub(crate) tls: Option<TlsConnector>,
}

impl Manner {
    /// A connection per stream, immediate answers.
    pub(crate) fn new(resource_type: ResourceType, protocol: Protocol) -> Self {
        Self {
            resource_type,
            protocol,
            per_connection: 1,
            answer_after: Duration::ZERO,
            tls: None,
        }
    }
}

/// Commands to a running swarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mood {
    /// NACK resources larger than [`LARGE`](super::LARGE).
    pub(crate) nack: bool,
    /// Read nothing.
    pub(crate) stalled: bool,
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
