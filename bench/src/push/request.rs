//! First requests of streams, framed for gRPC.

use std::collections::HashMap;

use bytes::Bytes;
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use oxds_types::{ApiVersion, ResourceType};

use super::swarm::framed;

/// The node of all clients, where all are alike.
const NODE: &str = "bench";

fn node(id: &str) -> Option<Node> {
    Some(Node {
        id: id.to_owned(),
        ..Node::default()
    })
}

/// Requests all resources of a type.
pub(super) fn all(resource_type: &ResourceType, protocol: Protocol) -> Bytes {
    all_as(NODE, resource_type, protocol)
}

/// The same over delta, with the type URL of this version.
pub(super) fn all_in(api: ApiVersion, resource_type: &ResourceType) -> Bytes {
    let type_url = resource_type.type_url_on(api).to_owned();
    all_of_url(NODE, type_url, Protocol::Delta)
}

/// The same, as this node.
pub(super) fn all_as(id: &str, resource_type: &ResourceType, protocol: Protocol) -> Bytes {
    all_of_url(id, resource_type.type_url().to_owned(), protocol)
}

fn all_of_url(id: &str, type_url: String, protocol: Protocol) -> Bytes {
    match protocol {
        Protocol::Sotw => framed(&DiscoveryRequest {
            node: node(id),
            type_url,
            ..DiscoveryRequest::default()
        }),
        Protocol::Delta => framed(&DeltaDiscoveryRequest {
            node: node(id),
            type_url,
            resource_names_subscribe: vec!["*".to_owned()],
            ..DeltaDiscoveryRequest::default()
        }),
    }
}

/// Requests names of a type over delta, with these initial versions.
pub(super) fn named(
    resource_type: &ResourceType,
    names: Vec<String>,
    initial_resource_versions: HashMap<String, String>,
) -> Bytes {
    framed(&DeltaDiscoveryRequest {
        node: node(NODE),
        type_url: resource_type.type_url().to_owned(),
        resource_names_subscribe: names,
        initial_resource_versions,
        ..DeltaDiscoveryRequest::default()
    })
}
