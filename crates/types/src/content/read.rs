//! Reads the content of an encoded message by its descriptors.

use prost_reflect::{DynamicMessage, Kind, MapKey, Value};
use serde_json::Value as Json;

use super::node::{Content, Entry, Hidden, TYPE};
use super::secret::{Secrecy, hide, hide_secrets};
use crate::codec::{MessageView, canonical, scalar};
use crate::depth::{self, CARRIERS, MAX_DEPTH, on_stack_for};
use crate::discovery::Any;
use crate::path::key_text;
use crate::schema::{self, Field, Message, Shape, Type, WellKnown, unpack};

/// Reason why a content cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The descriptors know no such message.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The bytes do not decode as the message type of the type URL, or nest too deep.
    #[error("malformed {message}: {reason}")]
    Malformed {
        /// Full name of the message type.
        message: String,
        /// Error of the decoder.
        reason: String,
    },
}

/// Reads the content of a resource, and hides its secrets. It begins with `@type`.
///
/// Fields and types that the descriptors do not know are hidden; that they differ is kept.
///
/// # Errors
/// The type of the resource is unknown, its bytes do not decode, or it nests too deep.
///
/// ```
/// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
/// use oxds_types::content::{compare, read};
/// use oxds_types::discovery::Any;
/// use prost::Message as _;
///
/// let of = |cluster: Cluster| Any {
///     type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
///     value: cluster.encode_to_vec().into(),
/// };
/// let old = read(&of(Cluster { name: "a".into(), ..Cluster::default() }))?;
/// let new = read(&of(Cluster { name: "a".into(), alt_stat_name: "b".into(), ..Cluster::default() }))?;
/// let paths: Vec<_> = compare(&old, &new).iter().map(|change| change.path()).collect();
/// assert_eq!(paths, ["alt_stat_name"]);
/// # Ok::<_, oxds_types::content::ContentError>(())
/// ```
pub fn read(any: &Any) -> Result<Content, ContentError> {
    let unknown = || ContentError::UnknownType(any.type_url.clone());
    let name = any.type_url.rsplit_once('/').ok_or_else(unknown)?.1;
    let schema = schema::find(name).ok_or_else(unknown)?;
    let malformed = |reason: String| ContentError::Malformed {
        message: schema.full_name().to_owned(),
        reason,
    };
    let levels = depth::measure(schema, &any.value, MAX_DEPTH + CARRIERS)
        .map_err(|deep| malformed(deep.to_string()))?;
    on_stack_for(levels, || {
        let message = DynamicMessage::decode(schema.descriptor.clone(), any.value.clone());
        let message = message.map_err(|error| malformed(error.to_string()))?;
        let mut content = typed(schema, &message, Secrecy::Public);
        hide_secrets(&mut content, "");
        Ok(content)
    })
}

/// Reads a message with its type.
fn typed(schema: &'static Message, message: &DynamicMessage, secrecy: Secrecy) -> Content {
    let type_url = Entry::new(TYPE, Content::text(canonical::type_url(schema)));
    let mut entries = vec![type_url];
    match (schema.well_known, message_content(schema, message, secrecy)) {
        (None, Content::Message(fields)) => entries.extend(fields),
        (_, value) => entries.push(Entry::new("value", value)),
    }
    Content::Message(entries)
}

fn message_content(
    schema: &'static Message,
    message: &DynamicMessage,
    secrecy: Secrecy,
) -> Content {
    match schema.well_known {
        None => fields(schema, message, secrecy),
        Some(WellKnown::Any) => any(message, secrecy),
        Some(WellKnown::Wrapper | WellKnown::Other) => {
            let json = serde_json::to_value(MessageView { schema, message });
            let mut content = json.map_or_else(|_| unreadable(message), from_json);
            if secrecy != Secrecy::Public {
                hide(&mut content);
            }
            content
        }
    }
}

fn any(message: &DynamicMessage, secrecy: Secrecy) -> Content {
    if let Some((schema, message)) = unpack(message) {
        return typed(schema, &message, secrecy);
    }
    let type_url = message.get_field_by_number(1);
    let type_url = type_url.as_ref().and_then(|url| url.as_str());
    match type_url.filter(|url| !url.is_empty()) {
        Some(type_url) => Content::Message(vec![
            Entry::new(TYPE, Content::text(type_url)),
            Entry::new("value", unreadable(message)),
        ]),
        None if message.fields().next().is_none() => Content::Message(Vec::new()),
        None => unreadable(message),
    }
}

fn unreadable(message: &DynamicMessage) -> Content {
    use prost::Message as _;
    Content::Hidden(Hidden::unreadable(&message.encode_to_vec()))
}

fn fields(schema: &'static Message, message: &DynamicMessage, secrecy: Secrecy) -> Content {
    let mut entries = Vec::new();
    for (descriptor, value) in message.fields() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        let content = field_content(field, value, secrecy.of_field(schema, field));
        entries.push(Entry::new(&*field.name, content));
    }
    entries.extend(unknown_fields(message));
    Content::Message(entries)
}

/// Returns the unknown fields under their numbers.
fn unknown_fields(message: &DynamicMessage) -> Vec<Entry> {
    let mut bytes: Vec<(u32, Vec<u8>)> = Vec::new();
    for field in message.unknown_fields() {
        match bytes
            .iter_mut()
            .find(|(number, _)| *number == field.number())
        {
            Some((_, bytes)) => field.encode(bytes),
            None => {
                let mut first = Vec::new();
                field.encode(&mut first);
                bytes.push((field.number(), first));
            }
        }
    }
    let entries = bytes.into_iter().map(|(number, bytes)| {
        let hidden = Hidden::unreadable(&bytes);
        Entry::new(number.to_string(), Content::Hidden(hidden))
    });
    entries.collect()
}

fn field_content(field: &'static Field, value: &Value, secrecy: Secrecy) -> Content {
    let single = |ty, value| single(ty, value, secrecy);
    match (&field.shape, value) {
        (Shape::List(ty), Value::List(values)) => {
            Content::List(values.iter().map(|value| single(ty, value)).collect())
        }
        (Shape::Map { value: ty, .. }, Value::Map(values)) => {
            let mut entries: Vec<(&MapKey, &Value)> = values.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries = entries.into_iter();
            let entries = entries.map(|(key, value)| Entry::new(key_text(key), single(ty, value)));
            Content::Map(entries.collect())
        }
        (Shape::One(ty) | Shape::List(ty) | Shape::Map { value: ty, .. }, value) => {
            single(ty, value)
        }
    }
}

fn single(ty: &'static Type, value: &Value, secrecy: Secrecy) -> Content {
    let mut content = match value {
        Value::Message(message) => {
            return match ty.message() {
                Some(schema) => message_content(schema, message, secrecy),
                None => unreadable(message),
            };
        }
        value => scalar_content(ty, value),
    };
    if secrecy != Secrecy::Public {
        hide(&mut content);
    }
    content
}

fn scalar_content(ty: &'static Type, value: &Value) -> Content {
    match (value, &ty.kind) {
        (Value::EnumNumber(number), Kind::Enum(descriptor)) => {
            match descriptor.get_value(*number) {
                Some(known) => Content::text(known.name()),
                None => Content::Scalar((*number).into()),
            }
        }
        // Through its shortest text: 0.1, and not 0.10000000149011612.
        (Value::F32(number), _) if number.is_finite() => {
            let shortest = number.to_string().parse::<f64>();
            Content::Scalar(shortest.map_or(Json::Null, Json::from))
        }
        (value, _) => {
            let json = scalar(value, serde_json::value::Serializer);
            Content::Scalar(json.unwrap_or_default())
        }
    }
}

/// Returns the content of a well-known type, such as `Struct`.
pub(super) fn from_json(json: Json) -> Content {
    match json {
        Json::Array(items) => Content::List(items.into_iter().map(from_json).collect()),
        Json::Object(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(name, value)| Entry::new(name, from_json(value)));
            Content::Map(entries.collect())
        }
        scalar => Content::Scalar(scalar),
    }
}
