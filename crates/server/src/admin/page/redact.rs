//! The content of a resource as YAML, without secrets.
//!
//! The descriptors say which fields are secrets ([`redact`]). What they do not cover is hidden by the names of fields: a `Struct` of an
//! extension, messages of API v2, inline data of any message, and headers that carry credentials.

use std::fmt;

use oxds_core::snapshot::Resource;
use oxds_types::ResourceType;
use oxds_types::codec::{Format, REDACTED, encode, redact};
use oxds_types::discovery::Any;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

/// Largest content that is shown, in bytes.
const MAX_CONTENT: usize = 256 << 10;
/// Words in the names of fields whose texts are secrets.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "secret",
    "token",
    "private_key",
    "credential",
    "pkcs12",
    "json_key",
    "authorization",
];
/// Fields whose inline data is public. All other inline data may be a key.
const PUBLIC_DATA: [&str; 6] = [
    "body",
    "text_format_source",
    "trusted_ca",
    "certificate_chain",
    "inline_code",
    "local_reply_config",
];
/// Words in the names of headers whose values are secrets.
const SECRET_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "api-key",
    "apikey",
];

/// Returns the content for display.
pub(super) fn yaml(resource: &Resource) -> String {
    if *resource.resource_type() == ResourceType::SECRET {
        return "# The content of secrets is not shown.\n".to_owned();
    }
    let value = resource.value();
    if value.len() > MAX_CONTENT {
        let bytes = value.len();
        return format!(
            "# Too large to be shown: {bytes} bytes, at most {MAX_CONTENT} are. `oxds get` prints it.\n"
        );
    }
    let any = Any {
        type_url: resource.resource_type().type_url().to_owned(),
        value,
    };
    let redacted = redact(&any).and_then(|any| encode(&[any], Format::Json));
    let text = redacted.map_err(|error| error.to_string());
    let tree = text.and_then(|text| {
        serde_json::from_slice::<Vec<Tree>>(&text).map_err(|error| error.to_string())
    });
    let shown = tree.map(|mut trees| {
        trees.iter_mut().for_each(|tree| tree.redact(""));
        trees.into_iter().next()
    });
    let mut yaml = String::new();
    let written = shown.and_then(|tree| {
        serde_saphyr::to_fmt_writer(&mut yaml, &tree).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => oxds_types::text::lines(&yaml),
        Err(reason) => format!("# Cannot be shown: {}\n", oxds_types::text::line(&reason)),
    }
}

/// A JSON document that keeps the order of its fields.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// Hides the secrets of a value that the field `name` has.
    fn redact(&mut self, name: &str) {
        match self {
            Self::List(items) => items.iter_mut().for_each(|item| item.redact(name)),
            Self::Map(fields) => {
                let is_header = header_of(fields).is_some_and(|header| {
                    let header = header.to_ascii_lowercase();
                    SECRET_HEADERS.iter().any(|word| header.contains(word))
                });
                for (field, value) in fields {
                    let is_inline = matches!(&**field, "inline_string" | "inline_bytes");
                    let is_value = matches!(&**field, "value" | "raw_value");
                    let is_hidden = is_inline && !PUBLIC_DATA.contains(&name)
                        || is_header && is_value
                        || is_secret(field) && matches!(value, Self::Text(_));
                    match is_hidden {
                        true => *value = Self::Text(REDACTED.to_owned()),
                        false => value.redact(field),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the name of the header that an object sets.
fn header_of(fields: &[(String, Tree)]) -> Option<&str> {
    fields
        .iter()
        .find_map(|(field, value)| match (&**field, value) {
            ("key", Tree::Text(key)) => Some(&**key),
            _ => None,
        })
}

fn is_secret(field: &str) -> bool {
    SECRET_WORDS.iter().any(|word| field.contains(word))
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items
                    .iter()
                    .try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (field, value) in fields {
                    map.serialize_entry(field, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Unsigned(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(Tree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::codec::{Options, decode};

    use super::*;

    fn redacted(json: &str) -> String {
        let mut tree: Tree = serde_json::from_str(json).unwrap();
        tree.redact("");
        let mut yaml = String::new();
        serde_saphyr::to_fmt_writer(&mut yaml, &tree).unwrap();
        yaml
    }

    #[test]
    fn page_never_shows_inline_secrets() {
        for json in [
            r#"{"tls_certificates":[{"private_key":{"inline_string":"HUSH"}}]}"#,
            r#"{"session_ticket_keys":{"keys":[{"inline_bytes":"HUSH"}]}}"#,
            r#"{"password":"HUSH"}"#,
            r#"{"auth_password":{"inline_string":"HUSH"}}"#,
            r#"{"request_headers_to_add":[{"header":{"key":"Authorization","value":"HUSH"}}]}"#,
            r#"{"header":{"value":"HUSH","key":"x-api-key"}}"#,
            r#"{"users":{"inline_string":"HUSH"}}"#,
            r#"{"credentials":[{"access_token":"HUSH"}]}"#,
        ] {
            let yaml = redacted(json);
            assert!(
                !yaml.contains("HUSH") && yaml.contains(REDACTED),
                "{json}: {yaml}"
            );
        }
    }

    #[test]
    fn page_keeps_public_content_and_its_order() {
        let yaml = redacted(
            r#"{"name":"b","direct_response":{"status":200,"body":{"inline_string":"hello"}},"header":{"key":"x-team","value":"shop"},"a":[1,-2,0.5,true,null]}"#,
        );
        assert!(yaml.contains("hello") && yaml.contains("shop"), "{yaml}");
        assert!(
            yaml.find("name").unwrap() < yaml.find("direct_response").unwrap(),
            "{yaml}"
        );
        assert!(!yaml.contains(REDACTED), "{yaml}");
    }

    /// Returns the YAML of the page for a resource as JSON.
    fn shown(resource_type: ResourceType, json: &str) -> String {
        let (file, options) = (std::path::Path::new("a.json"), Options::default());
        let loaded = decode(file, Format::Json, json.as_bytes(), &options).expect("valid");
        yaml(&Resource::new(resource_type, "a", &loaded[0].any.value))
    }

    /// Given fields that the API marks as sensitive, in messages in an `Any`, then they are hidden whatever their names are.
    #[test]
    fn page_never_shows_sensitive_fields() {
        let yaml = shown(
            ResourceType::ROUTE,
            r#"{"@type":"type.googleapis.com/envoy.config.route.v3.RouteConfiguration","name":"a","virtual_hosts":[{
                "name":"PUBLIC","domains":["*"],"typed_per_filter_config":{
                  "ext_authz":{"@type":"type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
                    "check_settings":{"context_extensions":{"tenant":"HUSH"},"disable_request_body_buffering":true}},
                  "api_key":{"@type":"type.googleapis.com/envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute",
                    "credentials":[{"key":"HUSH","client":"HUSH"}],"allowed_clients":["PUBLIC-2"]}}}]}"#,
        );
        assert!(!yaml.contains("HUSH"), "{yaml}");
        for public in [
            "PUBLIC",
            "tenant: (not shown)",
            "PUBLIC-2",
            "disable_request_body_buffering: true",
        ] {
            assert!(yaml.contains(public), "{public}: {yaml}");
        }
    }

    /// Given a certificate with its key, then the key is hidden; the certificate, and the places of both, are shown.
    #[test]
    fn page_shows_places_of_secrets() {
        let yaml = shown(
            ResourceType::CLUSTER,
            r#"{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"a","connect_timeout":"1s","transport_socket":{"name":"tls","typed_config":{
                "@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext","common_tls_context":{"tls_certificates":[
                  {"certificate_chain":{"inline_string":"PUBLIC"},"private_key":{"inline_bytes":"SFVTSA=="}},
                  {"certificate_chain":{"filename":"/etc/cert"},"private_key":{"filename":"/etc/key"},"password":{"environment_variable":"PW"}}]}}}}"#,
        );
        assert!(!yaml.contains("SFVTSA"), "{yaml}");
        for public in ["PUBLIC", "filename: /etc/key", "environment_variable: PW"] {
            assert!(yaml.contains(public), "{public}: {yaml}");
        }
    }
}
