//! Messages of the discovery services: requests, responses, and the wrappers of resources.
//!
//! They are declared here, and not taken from `envoy-types`, for speed: the body of a resource is a [`Bytes`] that
//! shares the buffer of the response, and is not decoded. Field numbers are those of
//! `envoy/service/discovery/v3/discovery.proto`. The v2 messages (`envoy.api.v2`) have a subset of the fields with the
//! same numbers, so these structs read and write both versions. A test compares them with the descriptors.

use std::collections::HashMap;

use bytes::Bytes;
pub use envoy_types::pb::envoy::config::core::v3::{ControlPlane, Node};
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
pub use envoy_types::pb::google::protobuf::Duration;
pub use envoy_types::pb::google::rpc::Status;

/// `google.protobuf.Any` with a shared body.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// `type.googleapis.com/` and the full name of the message.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message, in the buffer in which it arrived.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// SotW request: the subscription, and the ACK or NACK of the last response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryRequest {
    /// Version of the last accepted response.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// Identity of the client. Required only in the first request of a stream.
    #[prost(message, optional, tag = "2")]
    pub node: Option<Node>,
    /// All names that the client subscribes to.
    #[prost(string, repeated, tag = "3")]
    pub resource_names: Vec<String>,
    /// Names with dynamic parameters (xRFC TP2).
    #[prost(message, repeated, tag = "7")]
    pub resource_locators: Vec<ResourceLocator>,
    /// Type URL of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Nonce of the response that this request answers; empty in the first request of a stream.
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    /// Error of a NACK. The request is a NACK if and only if this field is present.
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
    /// Majors of the resource that the client accepts, each with its newest version (V-50). The field is ours: clients
    /// with the feature [`VERSIONED_TYPE_URLS`](crate::identity::VERSIONED_TYPE_URLS) send it in the first request of a
    /// type.
    #[prost(message, repeated, tag = "1000")]
    pub versioned_type_urls: Vec<VersionedTypeUrl>,
}

/// A major of a resource that a client accepts. The message of Envoy's policy was never released, so it is ours.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct VersionedTypeUrl {
    /// Type URL of the resource, which has the major.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// Newest version of this major of which the client supports all fields.
    #[prost(message, optional, tag = "2")]
    pub most_recently_supported: Option<SemanticVersion>,
}

/// SotW response: resources of one type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryResponse {
    /// Version of the set of resources.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// The resources. Each may be wrapped in a [`Resource`].
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    /// Not used by any known client.
    #[prost(bool, tag = "3")]
    pub canary: bool,
    /// Type URL of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Identifier of the response, which the ACK or NACK repeats.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Identity of the replica that sent the response.
    #[prost(message, optional, tag = "6")]
    pub control_plane: Option<ControlPlane>,
    /// Errors for single resources (xRFC TP3).
    #[prost(message, repeated, tag = "7")]
    pub resource_errors: Vec<ResourceError>,
}

/// Delta request: a change of the subscription, an ACK or NACK, or both.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaDiscoveryRequest {
    /// Identity of the client. Required only in the first request of a stream.
    #[prost(message, optional, tag = "1")]
    pub node: Option<Node>,
    /// Type URL of the resources.
    #[prost(string, tag = "2")]
    pub type_url: String,
    /// Names to subscribe to.
    #[prost(string, repeated, tag = "3")]
    pub resource_names_subscribe: Vec<String>,
    /// Names to unsubscribe from.
    #[prost(string, repeated, tag = "4")]
    pub resource_names_unsubscribe: Vec<String>,
    /// Names with dynamic parameters to subscribe to (xRFC TP2).
    #[prost(message, repeated, tag = "8")]
    pub resource_locators_subscribe: Vec<ResourceLocator>,
    /// Names with dynamic parameters to unsubscribe from (xRFC TP2).
    #[prost(message, repeated, tag = "9")]
    pub resource_locators_unsubscribe: Vec<ResourceLocator>,
    /// Versions of the resources that the client has from an earlier stream, by name.
    #[prost(map = "string, string", tag = "5")]
    pub initial_resource_versions: HashMap<String, String>,
    /// Nonce of the response that this request answers; empty if it answers none.
    #[prost(string, tag = "6")]
    pub response_nonce: String,
    /// Error of a NACK.
    #[prost(message, optional, tag = "7")]
    pub error_detail: Option<Status>,
    /// As in [`DiscoveryRequest`].
    #[prost(message, repeated, tag = "1000")]
    pub versioned_type_urls: Vec<VersionedTypeUrl>,
}

/// Delta response: changed resources, and names of removed ones.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaDiscoveryResponse {
    /// Version of the server state, for debugging only.
    #[prost(string, tag = "1")]
    pub system_version_info: String,
    /// New and changed resources.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Resource>,
    /// Type URL of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Names that do not exist, or do not exist any more.
    #[prost(string, repeated, tag = "6")]
    pub removed_resources: Vec<String>,
    /// Removed names with dynamic parameters (xRFC TP2).
    #[prost(message, repeated, tag = "8")]
    pub removed_resource_names: Vec<ParametrizedName>,
    /// Identifier of the response, which the ACK or NACK repeats.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Identity of the replica that sent the response.
    #[prost(message, optional, tag = "7")]
    pub control_plane: Option<ControlPlane>,
    /// Errors for single resources (xRFC TP3).
    #[prost(message, repeated, tag = "9")]
    pub resource_errors: Vec<ResourceError>,
}

/// A resource with its name and version: the element of a delta response, and the optional wrapper in a SotW response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Name of the resource.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Name with dynamic parameters, in place of `name` (xRFC TP2).
    #[prost(message, optional, tag = "8")]
    pub resource_name: Option<ParametrizedName>,
    /// Other names of the resource (VHDS).
    #[prost(string, repeated, tag = "4")]
    pub aliases: Vec<String>,
    /// Version of this resource.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The resource; absent in a heartbeat.
    #[prost(message, optional, tag = "2")]
    pub resource: Option<Any>,
    /// Time after which the client removes the resource, unless an update or a heartbeat arrives.
    #[prost(message, optional, tag = "6")]
    pub ttl: Option<Duration>,
    /// Cache control for xDS relays.
    #[prost(message, optional, tag = "7")]
    pub cache_control: Option<CacheControl>,
    /// Metadata of the resource, which is not part of its content.
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<envoy_types::pb::envoy::config::core::v3::Metadata>,
}

/// Cache control of a [`Resource`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CacheControl {
    /// Whether xDS relays must not cache the resource.
    #[prost(bool, tag = "1")]
    pub do_not_cache: bool,
}

/// A name with the dynamic parameters of the client (xRFC TP2).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceLocator {
    /// Name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Values of the dynamic parameters, by key.
    #[prost(map = "string, string", tag = "2")]
    pub dynamic_parameters: HashMap<String, String>,
}

/// `envoy.service.discovery.v3.ResourceName`: a name with constraints on dynamic parameters (xRFC
/// TP2).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ParametrizedName {
    /// Name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The constraints, encoded. oxds forwards them and does not read them.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub dynamic_parameter_constraints: Option<Bytes>,
}

/// An error for one resource (xRFC TP3).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceError {
    /// Name of the resource.
    #[prost(message, optional, tag = "1")]
    pub resource_name: Option<ParametrizedName>,
    /// Error that applies to this resource alone.
    #[prost(message, optional, tag = "2")]
    pub error_detail: Option<Status>,
}
