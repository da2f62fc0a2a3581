//! Encodes requests for servers of API v2 and v3 (gRFC A30).
//!
//! The messages are equal in both versions, except for `Node.build_version`, which only v2 has. The v3 message cannot
//! hold this field, so it is written here.

use bytes::BufMut;
use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsRequest;
use prost::encoding::{WireType, encode_key, encode_varint, string};
use prost::{EncodeError, Message};

use crate::ApiVersion;
use crate::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use crate::identity::user_agent;

/// Number of the field `envoy.api.v2.core.Node.build_version`.
const BUILD_VERSION: u32 = 5;

/// A request message with a `node` field.
pub trait HasNode: Message {
    /// Number of the `node` field.
    const NODE: u32;

    /// Returns the `node` field.
    fn node_mut(&mut self) -> &mut Option<Node>;
}

macro_rules! has_node {
    ($request:ty, $number:literal) => {
        impl HasNode for $request {
            const NODE: u32 = $number;

            fn node_mut(&mut self) -> &mut Option<Node> {
                &mut self.node
            }
        }
    };
}

has_node!(DiscoveryRequest, 2);
has_node!(DeltaDiscoveryRequest, 1);
has_node!(LoadStatsRequest, 1);

/// Appends a request, encoded for a stream of this API version.
///
/// # Errors
/// The buffer has no room. Buffers that grow never fail.
pub fn encode<M: HasNode>(
    mut request: M,
    version: ApiVersion,
    out: &mut impl BufMut,
) -> Result<(), EncodeError> {
    if version == ApiVersion::V2
        && let Some(node) = request.node_mut().take()
    {
        encode_v2_node(M::NODE, &node, out)?;
    }
    request.encode(out)
}

fn encode_v2_node(number: u32, node: &Node, out: &mut impl BufMut) -> Result<(), EncodeError> {
    // v3 has name and version in two fields.
    let build_version = user_agent(node);
    let len = node.encoded_len() + string::encoded_len(BUILD_VERSION, &build_version);
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
    node.encode(out)?;
    string::encode(BUILD_VERSION, &build_version, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
    use prost_reflect::DynamicMessage;

    use super::*;
    use crate::descriptor::v2_pool;
    use crate::version_map::v2_name;

    fn node() -> Node {
        Node {
            id: "n".to_owned(),
            user_agent_name: "oxds".to_owned(),
            user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion("1.2".to_owned())),
            ..Node::default()
        }
    }

    /// Decodes a request as a v2 server does, and returns `node.id` and `node.build_version`.
    fn read_by_v2<M: HasNode + Clone>(v3: &str, request: &M) -> (String, String) {
        let mut bytes = Vec::new();
        encode(request.clone(), ApiVersion::V2, &mut bytes).unwrap();
        let descriptor = v2_pool().get_message_by_name(v2_name(v3).unwrap()).unwrap();
        let message = DynamicMessage::decode(descriptor, &*bytes).unwrap();
        assert_eq!(message.unknown_fields().count(), 0);
        let node = message.get_field_by_name("node").unwrap();
        let node = node.as_message().unwrap();
        assert_eq!(node.unknown_fields().count(), 0);
        let text = |name: &str| {
            let value = node.get_field_by_name(name).unwrap();
            value.as_str().unwrap().to_owned()
        };
        (text("id"), text("build_version"))
    }

    #[test]
    fn c54_v2_node_has_build_version() {
        let expected = ("n".to_owned(), "oxds 1.2".to_owned());
        let node = Some(node());
        let sotw = DiscoveryRequest {
            node: node.clone(),
            version_info: "1".to_owned(),
            ..DiscoveryRequest::default()
        };
        let name = "envoy.service.discovery.v3.DiscoveryRequest";
        assert_eq!(read_by_v2(name, &sotw), expected);
        let delta = DeltaDiscoveryRequest {
            node: node.clone(),
            ..DeltaDiscoveryRequest::default()
        };
        let name = "envoy.service.discovery.v3.DeltaDiscoveryRequest";
        assert_eq!(read_by_v2(name, &delta), expected);
        let load = LoadStatsRequest {
            node,
            ..LoadStatsRequest::default()
        };
        let name = "envoy.service.load_stats.v3.LoadStatsRequest";
        assert_eq!(read_by_v2(name, &load), expected);
    }

    /// The v3 node lacks field 5; all else is equal in both versions.
    #[test]
    fn c54_v3_node_has_no_build_version() {
        let request = DiscoveryRequest {
            node: Some(node()),
            version_info: "1".to_owned(),
            type_url: "t".to_owned(),
            ..DiscoveryRequest::default()
        };
        let mut v3 = Vec::new();
        encode(request.clone(), ApiVersion::V3, &mut v3).unwrap();
        assert_eq!(v3, request.encode_to_vec());
        let mut v2 = Vec::new();
        encode(request.clone(), ApiVersion::V2, &mut v2).unwrap();
        assert_eq!(v2.len(), v3.len() + 2 + "oxds 1.2".len());
        assert_eq!(DiscoveryRequest::decode(&*v2).unwrap(), request);
    }

    #[test]
    fn request_without_node_is_equal_in_v2_and_v3() {
        let request = DiscoveryRequest::default();
        let mut bytes = Vec::new();
        encode(request, ApiVersion::V2, &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }
}
