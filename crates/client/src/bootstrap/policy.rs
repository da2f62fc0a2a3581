//! Features of a control plane, and the API version that follows from them (gRFC A30).

use oxds_types::ApiVersion;

/// `server_features` of one server. Servers do not share features (C-20); unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features {
    /// The server speaks xDS v3 (gRFC A30).
    pub xds_v3: bool,
    /// A resource that the server deletes stays in use (gRFC A53).
    pub ignore_resource_deletion: bool,
    /// Security configuration from the server is trusted (gRFC A81).
    pub trusted_xds_server: bool,
    /// A data error drops the cached resource (gRFC A88).
    pub fail_on_data_errors: bool,
    /// The resource timer reports a transient error instead of a missing resource (gRFC A88).
    pub resource_timer_is_transient_error: bool,
}

/// Version of the xDS API in which a control plane is asked. It may answer in either version.
///
/// A bootstrap file cannot set it: see [`Bootstrap::with_transport`](super::Bootstrap::with_transport) and
/// [`Builder::transport`](super::Builder::transport).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TransportPolicy {
    /// Always v3, whatever the server's features are: as gRPC does today (C-49).
    #[default]
    V3Only,
    /// The highest version that server and client share: v3 if the features contain `xds_v3`, else v2, for which no
    /// feature exists (C-50).
    Auto,
    /// Always v2, whatever the server's features are.
    V2Only,
}

impl TransportPolicy {
    pub(super) fn version(self, features: Features) -> ApiVersion {
        match self {
            Self::V3Only => ApiVersion::V3,
            // gRFC A30: the client uses the highest transport version that both sides support.
            Self::Auto if features.xds_v3 => ApiVersion::V3,
            Self::Auto | Self::V2Only => ApiVersion::V2,
        }
    }
}
