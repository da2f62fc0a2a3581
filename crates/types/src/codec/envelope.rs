//! Discovery requests and responses in JSON, as in the REST protocol (S-56).

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};

use super::canonical;
use super::encode::EncodeError;
use super::resource::RESPONSE;
use crate::depth::{self, CARRIERS, MAX_BRACKETS, MAX_DEPTH, TooDeep, brackets, on_stack_for};
use crate::discovery::{Any, DiscoveryRequest, DiscoveryResponse};
use crate::{ApiVersion, ResourceType, descriptor, schema};

const RESPONSE_V2: &str = "envoy.api.v2.DiscoveryResponse";
const REQUEST: &str = "envoy.service.discovery.v3.DiscoveryRequest";
const REQUEST_V2: &str = "envoy.api.v2.DiscoveryRequest";

/// Text that does not parse as a `DiscoveryRequest`, with the error of the parser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed DiscoveryRequest: {0}")]
pub struct RequestError(String);

/// Text that does not parse as a `DiscoveryResponse`, with the error of the parser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed DiscoveryResponse: {0}")]
pub struct ResponseError(String);

/// Reads a `DiscoveryRequest` in the JSON mapping. Unknown fields are ignored, because clients may be newer.
///
/// # Errors
/// The text is not JSON, or a field has the wrong type.
pub fn request_from_json(text: &[u8]) -> Result<DiscoveryRequest, RequestError> {
    from_json(descriptor::pool(), REQUEST, text).map_err(RequestError)
}

/// Writes a `DiscoveryRequest` in the canonical JSON mapping. Its type URL selects the API version.
///
/// # Errors
/// JSON cannot represent the message.
pub fn request_to_json(request: &DiscoveryRequest) -> Result<Vec<u8>, EncodeError> {
    to_json(&request.type_url, (REQUEST, REQUEST_V2), request)
}

/// Reads a `DiscoveryResponse` in the JSON mapping. The bodies of its resources are canonical: equal texts become equal
/// bytes. Unknown fields are ignored, because servers may be newer.
///
/// # Errors
/// The text is not JSON, a field has the wrong type, or a resource has an unknown type, which JSON cannot skip.
pub fn response_from_json(text: &[u8]) -> Result<DiscoveryResponse, ResponseError> {
    // The pool with both versions is built only if a text needs it.
    let pool = if text.windows(API_V2.len()).any(|window| window == API_V2) {
        descriptor::v2_pool()
    } else {
        descriptor::pool()
    };
    let mut response: DiscoveryResponse = from_json(pool, RESPONSE, text).map_err(ResponseError)?;
    for any in &mut response.resources {
        normalise(any).map_err(|deep| ResponseError(format!("{}: {deep}", any.type_url)))?;
    }
    Ok(response)
}

/// Text in the type URL of every v2 resource.
const API_V2: &[u8] = b"/envoy.api.v2.";

/// Encodes a resource canonically: reading JSON leaves map entries in any order.
fn normalise(any: &mut Any) -> Result<(), TooDeep> {
    let Some(schema) = any
        .type_url
        .rsplit_once('/')
        .and_then(|(_, name)| schema::find(name))
    else {
        return Ok(());
    };
    let levels = depth::measure(schema, &any.value, MAX_DEPTH)?;
    any.value = on_stack_for(levels, || {
        let message = DynamicMessage::decode(schema.descriptor.clone(), any.value.clone());
        let Ok(mut message) = message else {
            return any.value.clone();
        };
        canonical::normalise(schema, &mut message);
        let mut value = Vec::new();
        canonical::encode(schema, &message, &mut value);
        value.into()
    });
    Ok(())
}

/// Writes a `DiscoveryResponse` in the canonical JSON mapping, its resources and their `Any` messages included. Its
/// type URL selects the API version.
///
/// # Errors
/// A resource has an unknown type, or its bytes do not decode.
pub fn response_to_json(response: &DiscoveryResponse) -> Result<Vec<u8>, EncodeError> {
    to_json(&response.type_url, (RESPONSE, RESPONSE_V2), response)
}

fn from_json<T: Message + Default>(
    pool: &DescriptorPool,
    name: &str,
    text: &[u8],
) -> Result<T, String> {
    // RFC 8259, 8.1: JSON is UTF-8. The parser does not check what it skips, so a message with other bytes in an
    // unknown field would be read here, and yet be none for `RequestSize`.
    let text = std::str::from_utf8(text).map_err(|error| format!("not UTF-8: {error}"))?;
    let levels = brackets(text.as_bytes());
    if levels > MAX_BRACKETS {
        return Err(TooDeep::limit());
    }
    let descriptor = pool.get_message_by_name(name);
    let descriptor = descriptor.ok_or_else(|| name.to_owned())?;
    on_stack_for(levels, || {
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let mut json = serde_json::Deserializer::from_str(text);
        json.disable_recursion_limit();
        let descriptor = descriptor.clone();
        let message = DynamicMessage::deserialize_with_options(descriptor, &mut json, &options);
        let message = message.map_err(|error| error.to_string())?;
        json.end().map_err(|error| error.to_string())?;
        message.transcode_to().map_err(|error| error.to_string())
    })
}

/// Writes a message under the name of the version that `type_url` selects.
fn to_json<T: Message>(
    type_url: &str,
    (v3, v2): (&str, &str),
    message: &T,
) -> Result<Vec<u8>, EncodeError> {
    let unwritable = |error: &dyn std::fmt::Display| EncodeError::Unwritable(error.to_string());
    let (api, name) = match ResourceType::from_type_url(type_url) {
        Some((_, ApiVersion::V2)) => (ApiVersion::V2, v2),
        _ => (ApiVersion::V3, v3),
    };
    let schema =
        schema::find_in(api, name).ok_or_else(|| EncodeError::UnknownType(name.to_owned()))?;
    let value = Bytes::from(message.encode_to_vec());
    // The writer descends into each `Any` that it knows, without a limit of its own.
    let levels = depth::measure(schema, &value, MAX_DEPTH + CARRIERS);
    let levels = levels.map_err(|deep| unwritable(&deep))?;
    on_stack_for(levels, || {
        let message = DynamicMessage::decode(schema.descriptor.clone(), value.clone());
        let message = message.map_err(|error| unwritable(&error))?;
        let mut json = serde_json::Serializer::new(Vec::new());
        message
            .serialize_with_options(&mut json, &SerializeOptions::new())
            .map_err(|error| unwritable(&error))?;
        Ok(json.into_inner())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Node;

    /// Given requests with proto and JSON field names and with an unknown field, when they are read, then all known
    /// fields are set. A field of the wrong type is an error.
    #[test]
    fn s56_requests_accept_proto_and_json_field_names() {
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

    /// Given text that is not UTF-8 in a field that is skipped, when it is read, then it is an error, as `RequestSize`
    /// measures none of it.
    #[test]
    fn s56_requests_that_are_not_utf8_are_refused() {
        for wrong in [
            &b"{\"node\": {\"tomorrow\": {\"a\xab\": null}}, \"resourceNames\": [\"a\"]}"[..],
            b"{\"tomorrow\": \"\xff\", \"resourceNames\": [\"a\"]}",
        ] {
            let error = request_from_json(wrong).unwrap_err().to_string();
            assert!(
                error.starts_with("malformed DiscoveryRequest: not UTF-8: "),
                "{error}"
            );
        }
    }

    #[test]
    fn s56_responses_are_written_as_canonical_json() {
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

    #[test]
    fn c266_requests_are_written_in_v2_and_v3() {
        for (type_url, path) in [
            ("type.googleapis.com/envoy.config.cluster.v3.Cluster", "v3"),
            ("type.googleapis.com/envoy.api.v2.Cluster", "v2"),
        ] {
            let request = DiscoveryRequest {
                version_info: "7".into(),
                node: Some(Node {
                    id: "n".into(),
                    ..Node::default()
                }),
                resource_names: vec!["a".into()],
                type_url: type_url.into(),
                ..DiscoveryRequest::default()
            };
            let text = request_to_json(&request).unwrap();
            assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&text).unwrap(),
                serde_json::json!({
                    "versionInfo": "7",
                    "node": {"id": "n"},
                    "resourceNames": ["a"],
                    "typeUrl": type_url,
                }),
                "{path}"
            );
        }
    }

    /// Given a response with maps, in v2 and v3, when the same text is read again, then the bytes are equal. Text that
    /// is not a response is an error.
    #[test]
    fn c267_c268_equal_responses_become_equal_bytes() {
        let resource = |url: &str| {
            let fields: Vec<_> = (0..20).map(|n| format!("\"k{n}\": \"v\"")).collect();
            format!(
                "{{\"@type\": \"{url}\", \"name\": \"a\", \"connect_timeout\": \"3s\", \
                 \"metadata\": {{\"filterMetadata\": {{\"m\": {{{}}}}}}}}}",
                fields.join(", ")
            )
        };
        for url in [
            "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "type.googleapis.com/envoy.api.v2.Cluster",
        ] {
            let text = format!(
                "{{\"version_info\": \"7\", \"tomorrow\": 1, \"resources\": [{}]}}",
                resource(url)
            );
            let read = || response_from_json(text.as_bytes()).unwrap();
            let response = read();
            assert_eq!(response.version_info, "7");
            assert_eq!(response.resources[0].type_url, url);
            assert!(response.resources[0].value.starts_with(b"\x0a\x01a"));
            for _ in 0..5 {
                assert_eq!(read(), response);
            }
        }
        let nonsense = "{\"resources\": [{\"@type\": \"x/no.Such\", \"name\": \"a\"}]}";
        for wrong in ["", "{", "[]", nonsense, "{\"versionInfo\": 7}"] {
            assert!(response_from_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
