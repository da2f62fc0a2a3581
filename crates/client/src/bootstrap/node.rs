//! The node that requests carry: the bootstrap's fields, and what this library adds.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::{Locality, node::UserAgentVersionType};
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value, value::Kind};
use oxds_types::discovery::Node;
use serde_json::Value as Json;

use super::field::{FieldError, JsonField};

/// Features of this client. gRPC does not support overprovisioning (gRFC A27); like every current gRPC client, it
/// accepts resources in a `Resource` wrapper in SotW responses.
const CLIENT_FEATURES: [&str; 2] = [
    "envoy.lb.does_not_support_overprovisioning",
    "xds.config.resource-in-sotw",
];

/// Returns a node with this library's user agent and features only.
pub(super) fn anonymous() -> Node {
    Node {
        user_agent_name: "oxds".to_owned(),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(
            env!("CARGO_PKG_VERSION").to_owned(),
        )),
        client_features: CLIENT_FEATURES.map(str::to_owned).to_vec(),
        ..Node::default()
    }
}

/// Reads `node`. User agent, features and build version come from the library, not from the file (C-24); unknown fields
/// are ignored (C-7).
pub(super) fn read(at: &JsonField<'_>) -> Result<Node, FieldError> {
    let locality = at
        .optional("locality")
        .map(|at| locality(&at))
        .transpose()?;
    let metadata = at
        .optional("metadata")
        .map(|at| at.object().map(structure))
        .transpose()?;
    Ok(Node {
        id: at.text_or_empty("id")?,
        cluster: at.text_or_empty("cluster")?,
        locality,
        metadata,
        // gRFC A27: user agent and client features are the library's, whatever the file contains (C-24).
        ..anonymous()
    })
}

fn locality(at: &JsonField<'_>) -> Result<Locality, FieldError> {
    at.object()?;
    Ok(Locality {
        region: at.text_or_empty("region")?,
        zone: at.text_or_empty("zone")?,
        sub_zone: at.text_either("sub_zone", "subZone")?,
    })
}

/// Converts a JSON object into a protobuf `Struct`.
pub(super) fn structure(fields: &serde_json::Map<String, Json>) -> Struct {
    let fields = fields
        .iter()
        .map(|(name, json)| (name.clone(), value(json)));
    Struct {
        fields: fields.collect::<HashMap<_, _>>(),
    }
}

fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(value).collect(),
        }),
        Json::Object(fields) => Kind::StructValue(structure(fields)),
    };
    Value { kind: Some(kind) }
}
