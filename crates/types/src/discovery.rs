//! The discovery envelope: what travels on a stream around resources.
//!
//! Declared here rather than taken from `envoy-types` because it is the hot path: a resource's
//! body is a [`Bytes`] that shares the buffer it arrived in, and is never decoded on the way.
//! Field numbers follow `envoy/service/discovery/v3/discovery.proto`; the v2 envelope
//! (`envoy.api.v2`) is a subset with the same numbers, so that these read and write both. A test
//! compares them with the descriptors.

use std::collections::HashMap;

use bytes::Bytes;
pub use envoy_types::pb::envoy::config::core::v3::{ControlPlane, Node};
pub use envoy_types::pb::google::protobuf::Duration;
pub use envoy_types::pb::google::rpc::Status;

/// `google.protobuf.Any` with a shared body.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// `type.googleapis.com/` and the message's full name.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// SotW request: a subscription, and the acknowledgement (or not) of the last response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryRequest {
    /// The version last accepted.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// Who asks; only the first request of a stream must say.
    #[prost(message, optional, tag = "2")]
    pub node: Option<Node>,
    /// The names subscribed to.
    #[prost(string, repeated, tag = "3")]
    pub resource_names: Vec<String>,
    /// Names with dynamic parameters (TP2).
    #[prost(message, repeated, tag = "7")]
    pub resource_locators: Vec<ResourceLocator>,
    /// The kind asked for.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Nonce of the response that this answers; empty on the first request of a stream.
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    /// Why the response was rejected. Its presence, and nothing else, makes a NACK.
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
}

/// SotW response: resources of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryResponse {
    /// The version of the kind's contents.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// The resources, each perhaps wrapped in a [`Resource`].
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    /// Unused by all known clients.
    #[prost(bool, tag = "3")]
    pub canary: bool,
    /// The kind answered.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Names this response, for the acknowledgement.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Which replica answers.
    #[prost(message, optional, tag = "6")]
    pub control_plane: Option<ControlPlane>,
    /// Errors for single resources (TP3).
    #[prost(message, repeated, tag = "7")]
    pub resource_errors: Vec<ResourceError>,
}

/// Delta request: a change of subscription, an acknowledgement, or both.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaDiscoveryRequest {
    /// Who asks; only the first request of a stream must say.
    #[prost(message, optional, tag = "1")]
    pub node: Option<Node>,
    /// The kind asked for.
    #[prost(string, tag = "2")]
    pub type_url: String,
    /// Names to add.
    #[prost(string, repeated, tag = "3")]
    pub resource_names_subscribe: Vec<String>,
    /// Names to remove.
    #[prost(string, repeated, tag = "4")]
    pub resource_names_unsubscribe: Vec<String>,
    /// Names with dynamic parameters to add (TP2).
    #[prost(message, repeated, tag = "8")]
    pub resource_locators_subscribe: Vec<ResourceLocator>,
    /// Names with dynamic parameters to remove (TP2).
    #[prost(message, repeated, tag = "9")]
    pub resource_locators_unsubscribe: Vec<ResourceLocator>,
    /// What the client holds from an earlier stream, by name.
    #[prost(map = "string, string", tag = "5")]
    pub initial_resource_versions: HashMap<String, String>,
    /// Nonce of the response that this answers; empty for a spontaneous request.
    #[prost(string, tag = "6")]
    pub response_nonce: String,
    /// Why the response was rejected.
    #[prost(message, optional, tag = "7")]
    pub error_detail: Option<Status>,
}

/// Delta response: resources that changed, and names that are gone.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaDiscoveryResponse {
    /// For debugging only.
    #[prost(string, tag = "1")]
    pub system_version_info: String,
    /// New and changed resources.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Resource>,
    /// The kind answered.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Names that do not exist (any more).
    #[prost(string, repeated, tag = "6")]
    pub removed_resources: Vec<String>,
    /// As `removed_resources`, with dynamic parameters (TP2).
    #[prost(message, repeated, tag = "8")]
    pub removed_resource_names: Vec<ParametrizedName>,
    /// Names this response, for the acknowledgement.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Which replica answers.
    #[prost(message, optional, tag = "7")]
    pub control_plane: Option<ControlPlane>,
    /// Errors for single resources (TP3).
    #[prost(message, repeated, tag = "9")]
    pub resource_errors: Vec<ResourceError>,
}

/// A resource with its name and version: the element of a delta response, and the wrapper that a
/// SotW response may use.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// The resource's name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// As `name`, with dynamic parameters (TP2).
    #[prost(message, optional, tag = "8")]
    pub resource_name: Option<ParametrizedName>,
    /// Other names of the same resource.
    #[prost(string, repeated, tag = "4")]
    pub aliases: Vec<String>,
    /// The version of this resource.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The body; absent in a heartbeat.
    #[prost(message, optional, tag = "2")]
    pub resource: Option<Any>,
    /// How long the client keeps it unless told again.
    #[prost(message, optional, tag = "6")]
    pub ttl: Option<Duration>,
    /// Whether proxies between may keep it.
    #[prost(message, optional, tag = "7")]
    pub cache_control: Option<CacheControl>,
    /// Information about the resource, not part of it.
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<envoy_types::pb::envoy::config::core::v3::Metadata>,
}

/// Cache control of a [`Resource`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CacheControl {
    /// Proxies must not keep the resource.
    #[prost(bool, tag = "1")]
    pub do_not_cache: bool,
}

/// A name with the dynamic parameters of the client (TP2).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceLocator {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The parameters.
    #[prost(map = "string, string", tag = "2")]
    pub dynamic_parameters: HashMap<String, String>,
}

/// `envoy.service.discovery.v3.ResourceName`: a name with constraints on dynamic parameters (TP2).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ParametrizedName {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The constraints, kept encoded: oxds passes them on unread.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub dynamic_parameter_constraints: Option<Bytes>,
}

/// An error for one resource (TP3).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceError {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub resource_name: Option<ParametrizedName>,
    /// What is wrong.
    #[prost(message, optional, tag = "2")]
    pub error_detail: Option<Status>,
}
