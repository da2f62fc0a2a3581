//! Errors of a source's configuration.

use oxds_core::ads::Protocol;
use oxds_types::ResourceType;

/// Reason why a source is invalid, or cannot deliver a resource type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// ADS over REST, which the protocol does not have (C-270).
    #[error(
        "{field}: ADS over REST is not possible: ADS is one stream for all types, and needs gRPC"
    )]
    AdsOverRest {
        /// Path of the field with the API type.
        field: String,
    },
    /// A cluster that [`Clusters`](super::Clusters) does not contain.
    #[error("{field}: cluster {cluster:?} not found: give its address in code")]
    UnknownCluster {
        /// Path of the field with the cluster's name.
        field: String,
        /// Name of the cluster.
        cluster: String,
    },
    /// The source needs a feature of this crate that is off: `file` or `rest`.
    #[error("{field}: needs the feature `{feature}` of oxds-client, which is off in this program")]
    FeatureOff {
        /// Path of the field that names the source; `source` for a source that code made.
        field: String,
        /// Name of the feature.
        feature: &'static str,
    },
    /// The resource type has no discovery service of its own over this transport.
    #[error("{resource_type} has no service of its own over {transport}")]
    NoService {
        /// The resource type.
        resource_type: ResourceType,
        /// Transport, and variant of the protocol.
        transport: &'static str,
    },
    /// The source is [`Source::ads`](super::Source::ads), and the bootstrap has no server.
    #[error("the bootstrap has no server")]
    NoServer,
    /// A field has an invalid value.
    #[error("{field}: {reason}")]
    Field {
        /// Path of the field.
        field: String,
        /// Rule that the value breaks.
        reason: String,
    },
}

impl SourceError {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.into(),
        }
    }

    pub(super) fn feature_off(field: &str, feature: &'static str) -> Self {
        Self::FeatureOff {
            field: field.to_owned(),
            feature,
        }
    }

    pub(super) fn no_grpc_service(resource_type: &ResourceType, protocol: Protocol) -> Self {
        Self::NoService {
            resource_type: resource_type.clone(),
            transport: match protocol {
                Protocol::Sotw => "gRPC (SotW)",
                Protocol::Delta => "gRPC (delta)",
            },
        }
    }
}
