//! The discovery envelope in JSON, as REST carries it (S-56).

use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};

use super::EncodeError;
use super::document::RESPONSE;
use crate::discovery::{DiscoveryRequest, DiscoveryResponse};
use crate::{ApiVersion, Kind, descriptor};

const RESPONSE_V2: &str = "envoy.api.v2.DiscoveryResponse";
const REQUEST: &str = "envoy.service.discovery.v3.DiscoveryRequest";

/// Text that is no discovery request, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no discovery request: {0}")]
pub struct RequestError(String);

/// Reads a `DiscoveryRequest` in the JSON mapping. Fields that are not known here are passed over: clients may be newer.
pub fn request_from_json(text: &[u8]) -> Result<DiscoveryRequest, RequestError> {
    let wrong = |error: &dyn std::fmt::Display| RequestError(error.to_string());
    let descriptor = descriptor::message(REQUEST).ok_or_else(|| wrong(&REQUEST))?;
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut json = serde_json::Deserializer::from_slice(text);
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut json, &options);
    let message = message.map_err(|error| wrong(&error))?;
    json.end().map_err(|error| wrong(&error))?;
    message.transcode_to().map_err(|error| wrong(&error))
}

/// Writes a `DiscoveryResponse` in the canonical JSON mapping, its resources and all that is packed in them included.
/// Its type URL tells whether it is one of v2.
pub fn response_to_json(response: &DiscoveryResponse) -> Result<Vec<u8>, EncodeError> {
    let unwritable = |error: &dyn std::fmt::Display| EncodeError::Unwritable(error.to_string());
    let kind = Kind::from_type_url(&response.type_url);
    let (pool, name) = match kind {
        Some((_, ApiVersion::V2)) => (descriptor::v2_pool(), RESPONSE_V2),
        _ => (descriptor::pool(), RESPONSE),
    };
    let unknown = || EncodeError::UnknownType(name.to_owned());
    let mut message = DynamicMessage::new(pool.get_message_by_name(name).ok_or_else(unknown)?);
    message
        .transcode_from(response)
        .map_err(|error| unwritable(&error))?;
    let mut json = serde_json::Serializer::new(Vec::new());
    message
        .serialize_with_options(&mut json, &SerializeOptions::new())
        .map_err(|error| unwritable(&error))?;
    Ok(json.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Any;

    /// Given a request as Envoy writes it, with the names of the proto file and a field that is not known here, it is
    /// read; one with a field of the wrong type is refused by name.
    #[test]
    fn s56_requests_are_read_in_both_spellings() {
        let text =
            br#"{"node": {"id": "n", "tomorrow": 1}, "version_info": "7", "resourceNames": ["a"]}"#;
        let request = request_from_json(text).unwrap();
        assert_eq!(request.node.unwrap().id, "n");
        assert_eq!(
            (&*request.version_info, &*request.resource_names),
            ("7", &["a".to_owned()][..])
        );
        for wrong in [&b"{"[..], b"[]", b"{\"resourceNames\": 7}", b"{} {}"] {
            assert!(request_from_json(wrong).is_err());
        }
    }

    #[test]
    fn s56_responses_are_canonical_json() {
        let type_url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        let response = DiscoveryResponse {
            version_info: "7".into(),
            resources: vec![Any {
                type_url: type_url.into(),
                value: b"\x0a\x01a\x22\x02\x08\x03"[..].into(),
            }],
            ..DiscoveryResponse::default()
        };
        let text = response_to_json(&response).unwrap();
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&text).unwrap(),
            serde_json::json!({
                "versionInfo": "7",
                "resources": [{"@type": type_url, "name": "a", "connectTimeout": "3s"}],
            })
        );
    }
}
