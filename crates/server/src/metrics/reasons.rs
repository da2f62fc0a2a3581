//! Why a connection, stream or request is not served: the labels of `oxds_denied_total`, `oxds_over_limit_total` and
//! `oxds_invalid_total`.

/// Source of the denial of a call or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedBy {
    /// Certificates, tokens, and the rules of the operator.
    Authorization,
    /// A rule that does not grant a secret.
    Secret,
    /// A hook of the embedding program.
    Hook,
    /// The oldest major of the API that is served.
    ApiVersion,
}

/// A limit for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Open connections.
    Connections,
    /// Open streams.
    Streams,
    /// Open streams from one address.
    StreamsPerPeer,
    /// Time until a connection has its first call.
    FirstCall,
    /// Time until a stream has its first request.
    FirstRequest,
    /// Memory that clients make the server keep.
    Memory,
    /// Bytes of a request.
    RequestBytes,
    /// Bytes of a node.
    NodeBytes,
    /// Bytes of a node id.
    NodeIdBytes,
    /// Resource types of a stream.
    Types,
    /// Names of a subscription.
    Names,
    /// Bytes of a name.
    NameBytes,
}

/// A part of the protocol that a client breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidPart {
    /// The TLS handshake.
    #[cfg(feature = "tls")]
    Handshake,
    /// A request, or its framing.
    Request,
}

impl DeniedBy {
    /// Returns the value of the label `reason`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Authorization => "authorization",
            Self::Secret => "secret",
            Self::Hook => "hook",
            Self::ApiVersion => "api_version",
        }
    }
}

impl Limit {
    /// Returns the value of the label `limit`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::StreamsPerPeer => "streams_per_peer",
            Self::FirstCall => "first_call",
            Self::FirstRequest => "first_request",
            Self::Memory => "memory",
            Self::RequestBytes => "request_bytes",
            Self::NodeBytes => "node_bytes",
            Self::NodeIdBytes => "node_id_bytes",
            Self::Types => "types",
            Self::Names => "names",
            Self::NameBytes => "name_bytes",
        }
    }
}

impl InvalidPart {
    /// Returns the value of the label `part`.
    pub(super) fn label(self) -> &'static str {
        match self {
            #[cfg(feature = "tls")]
            Self::Handshake => "handshake",
            Self::Request => "request",
        }
    }
}
