//! Sizes of requests: checked before the request is decoded, and estimated for as long as its content is kept (S-60).

use envoy_types::pb::google::protobuf::{Struct, Value, value};
use oxds_core::session::{Interest, Session};
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::Node;
use oxds_types::{RequestSize, ResourceType};
use prost::Message as _;

use super::error::CallError;
use super::limits::Limits;

/// Bytes that one subscribed name costs beside its text: the entries of the session, and of the index of watched names.
const NAME: usize = 256;
/// Bytes that one entry of a map with text keys costs beside its texts.
const ENTRY: usize = 128;
/// Largest factor between the JSON of a message and its dynamic form, in memory.
const DYNAMIC: usize = 450;

/// Checks the size of an encoded request. Returns the bytes that it takes decoded.
///
/// # Errors
/// The node or the number of names exceeds its limit.
pub(crate) fn of_request(
    message: &[u8],
    protocol: Protocol,
    limits: &Limits,
) -> Result<usize, CallError> {
    let size = match protocol {
        Protocol::Sotw => RequestSize::from_sotw(message),
        Protocol::Delta => RequestSize::from_delta(message),
    };
    check_node_bytes(size.node, limits)?;
    let entries = size.names + size.unsubscribed + 2 * size.versions + size.majors;
    // Values of a `Struct` take up to 16 times their encoded size.
    let nested = 16 * (size.node + size.error);
    Ok(message.len() + nested + ENTRY * entries)
}

/// Checks the size of a request in JSON. Returns the bytes that reading it takes.
///
/// # Errors
/// The node, or an error detail, exceeds the limit of nodes.
pub(crate) fn of_json(text: &[u8], limits: &Limits) -> Result<usize, CallError> {
    let size = RequestSize::from_json(text);
    check_node_bytes(size.node, limits)?;
    check_node_bytes(size.error, limits)?;
    let dynamic = size.node + size.error;
    Ok(2 * text.len() + DYNAMIC * dynamic + 8 * ENTRY * size.names)
}

fn check_node_bytes(length: usize, limits: &Limits) -> Result<(), CallError> {
    let limit = limits.node_bytes;
    if length > limit {
        Err(CallError::NodeTooLong { length, limit })
    } else {
        Ok(())
    }
}

/// Checks a node that a client sent. Returns the bytes that keeping it takes.
///
/// # Errors
/// The node or its id exceeds its limit.
pub(crate) fn of_node(node: &Node, limits: &Limits) -> Result<usize, CallError> {
    let encoded = node.encoded_len();
    check_node_bytes(encoded, limits)?;
    let (length, limit) = (node.id.len(), limits.node_id_bytes);
    if length > limit {
        return Err(CallError::NodeIdTooLong { length, limit });
    }
    Ok(node_bytes(node))
}

/// Returns the bytes that keeping a node takes.
pub(crate) fn node_bytes(node: &Node) -> usize {
    let metadata = node.metadata.as_ref().map_or(0, struct_bytes);
    let features = size_of::<String>() * node.client_features.len();
    size_of::<Node>() + node.encoded_len() + features + metadata
}

fn struct_bytes(fields: &Struct) -> usize {
    let entry = |(key, value): (&String, &Value)| ENTRY + key.len() + value_bytes(value);
    fields.fields.iter().map(entry).sum()
}

fn value_bytes(value: &Value) -> usize {
    let content = match &value.kind {
        Some(value::Kind::StringValue(text)) => text.len(),
        Some(value::Kind::StructValue(fields)) => struct_bytes(fields),
        Some(value::Kind::ListValue(list)) => list.values.iter().map(value_bytes).sum(),
        _ => 0,
    };
    size_of::<Value>() + content
}

/// Returns the bytes that a session and the index keep for these names.
pub(crate) fn of_interests(interests: &[Interest]) -> usize {
    let cost = |interest: &Interest| match interest {
        Interest::All => NAME,
        Interest::Name(name) => NAME + name.len(),
    };
    interests.iter().map(cost).sum()
}

/// Returns the bytes of these names in a session.
pub(crate) fn of_names(names: &[String]) -> usize {
    names.iter().map(|name| NAME + name.len()).sum()
}

/// Returns the bytes that a session keeps for the NACKs of a resource type.
pub(crate) fn of_nacks(session: &Session, resource_type: &ResourceType) -> usize {
    let nacked = session.nacked_resources(resource_type);
    nacked
        .map(|(name, nacked)| ENTRY + name.len() + nacked.reason.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given a node with many small values in its metadata, then its estimate is not below the memory that they take.
    #[test]
    fn s60_small_metadata_values_exceed_their_encoding() {
        let value = |_| Value {
            kind: Some(value::Kind::NullValue(0)),
        };
        let entries = 1000;
        let fields = (0..entries).map(|index| (index.to_string(), value(index)));
        let node = Node {
            id: "n".into(),
            metadata: Some(Struct {
                fields: fields.collect(),
            }),
            ..Node::default()
        };
        let cost = of_node(&node, &Limits::default()).unwrap();
        let (key, slot) = (size_of::<String>(), size_of::<Value>());
        assert!(cost >= entries * (key + slot), "{cost}");
        let limits = Limits {
            node_bytes: 4096,
            ..Limits::default()
        };
        let error = of_node(&node, &limits).unwrap_err();
        assert!(
            matches!(error, CallError::NodeTooLong { limit: 4096, .. }),
            "{error}"
        );
        let node = Node {
            id: "x".repeat(1025),
            ..Node::default()
        };
        let error = of_node(&node, &Limits::default()).unwrap_err().to_string();
        assert_eq!(error, "node id of 1025 bytes: at most 1024 are allowed");
    }
}
