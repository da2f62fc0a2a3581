//! Behaviour of the streams of a swarm.

use std::time::Duration;

use oxds_core::snapshot::Protocol;
use oxds_types::{ApiVersion, ResourceType};
use tokio_rustls::TlsConnector;

/// Behaviour of the streams of a swarm.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) resource_type: ResourceType,
    pub(crate) protocol: Protocol,
    /// The version of the type URLs. The stream is one of v3 in any case (gRFC A30).
    pub(crate) api: ApiVersion,
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
            api: ApiVersion::V3,
            per_connection: 1,
            answer_after: Duration::ZERO,
            tls: None,
        }
    }
}

/// Answer to an invalid resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Nack {
    /// An ACK.
    #[default]
    No,
    /// A NACK whose text names the resource, as those of gRPC and of Envoy's CDS and LDS do.
    Named,
    /// A NACK whose text names nothing, as that of Envoy if a resource does not decode.
    Unnamed,
}

/// Commands to a running swarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Commands {
    /// Answer to resources larger than [`LARGE`](super::super::resources::LARGE).
    pub(crate) nack: Nack,
    /// Number of the [`MARKED`](super::super::resources::MARKED) resources that a change has.
    pub(crate) marked: usize,
    /// Read nothing.
    pub(crate) stalled: bool,
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
