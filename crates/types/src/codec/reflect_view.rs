//! Messages of any descriptors in the JSON mapping, with the field names of the proto files, and map entries in order.

use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage as _, SerializeOptions, Value};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use super::tree::TYPE;
use crate::discovery::Any;
use crate::path::key_text;

/// A message with its type URL.
pub(super) struct AnyView<'a> {
    pub(super) type_url: &'a str,
    pub(super) message: &'a DynamicMessage,
}

impl Serialize for AnyView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(TYPE, self.type_url)?;
        if is_well_known(self.message) {
            map.serialize_entry("value", &MessageView(self.message))?;
        } else {
            fields(self.message, &mut map)?;
        }
        map.end()
    }
}

/// A message.
pub(super) struct MessageView<'a>(pub(super) &'a DynamicMessage);

impl Serialize for MessageView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.0;
        match message.descriptor().full_name() {
            "google.protobuf.Any" => any(message, serializer),
            "google.protobuf.Struct" | "google.protobuf.ListValue" => {
                match message.fields().next() {
                    Some((_, value)) => ValueView(value, None).serialize(serializer),
                    None if message.descriptor().name() == "Struct" => {
                        serializer.serialize_map(Some(0))?.end()
                    }
                    None => serializer.collect_seq(std::iter::empty::<()>()),
                }
            }
            "google.protobuf.Value" => match message.fields().next() {
                Some((field, value)) if field.number() != 1 => {
                    ValueView(value, None).serialize(serializer)
                }
                _ => serializer.serialize_unit(),
            },
            _ if is_well_known(message) => {
                message.serialize_with_options(serializer, &SerializeOptions::new())
            }
            _ => {
                let mut map = serializer.serialize_map(None)?;
                fields(message, &mut map)?;
                map.end()
            }
        }
    }
}

/// Returns whether a message has a JSON form of its own (ProtoJSON, "Well-known types").
fn is_well_known(message: &DynamicMessage) -> bool {
    let descriptor = message.descriptor();
    let name = descriptor.full_name().strip_prefix("google.protobuf.");
    name.is_some_and(|name| {
        matches!(
            name,
            "Any"
                | "Struct"
                | "Value"
                | "ListValue"
                | "Timestamp"
                | "Duration"
                | "FieldMask"
                | "Empty"
        ) || name.strip_suffix("Value").is_some_and(|of| {
            matches!(
                of,
                "Double"
                    | "Float"
                    | "Int32"
                    | "Int64"
                    | "UInt32"
                    | "UInt64"
                    | "Bool"
                    | "String"
                    | "Bytes"
            )
        })
    })
}

fn fields<M: SerializeMap>(message: &DynamicMessage, map: &mut M) -> Result<(), M::Error> {
    if let Some(unknown) = message.unknown_fields().next() {
        let name = message.descriptor().full_name().to_owned();
        let number = unknown.number();
        return Err(M::Error::custom(format_args!(
            "{name} has the unknown field {number}: expected the binary format, which keeps it"
        )));
    }
    for (field, value) in message.fields() {
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        map.serialize_entry(field.name(), &ValueView(value, Some(&kind)))?;
    }
    for (extension, value) in message.extensions() {
        map.serialize_entry(
            extension.json_name(),
            &ValueView(value, Some(&extension.kind())),
        )?;
    }
    Ok(())
}

fn any<S: Serializer>(message: &DynamicMessage, serializer: S) -> Result<S::Ok, S::Error> {
    let any: Any = message.transcode_to().map_err(S::Error::custom)?;
    if any == Any::default() {
        return serializer.serialize_map(Some(0))?.end();
    }
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = message.descriptor();
    let inner = descriptor.parent_pool().get_message_by_name(name);
    let inner = inner.ok_or_else(|| {
        S::Error::custom(format_args!(
            "an Any of unknown type `{name}`: expected the binary format"
        ))
    })?;
    let inner = DynamicMessage::decode(inner, any.value).map_err(S::Error::custom)?;
    AnyView {
        type_url: &any.type_url,
        message: &inner,
    }
    .serialize(serializer)
}

/// A value, and the type of its field.
struct ValueView<'a>(&'a Value, Option<&'a Kind>);

impl Serialize for ValueView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ValueView(value, kind) = *self;
        match value {
            Value::Message(message) => MessageView(message).serialize(serializer),
            Value::List(values) => {
                serializer.collect_seq(values.iter().map(|value| ValueView(value, kind)))
            }
            Value::Map(values) => {
                let mut entries: Vec<(&MapKey, &Value)> = values.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let entry = |(key, value)| (key_text(key), ValueView(value, kind));
                serializer.collect_map(entries.into_iter().map(entry))
            }
            Value::EnumNumber(number) => {
                let of = kind.and_then(Kind::as_enum);
                match of.and_then(|of| of.get_value(*number)) {
                    Some(known)
                        if known.parent_enum().full_name() == "google.protobuf.NullValue" =>
                    {
                        serializer.serialize_unit()
                    }
                    Some(known) => serializer.serialize_str(known.name()),
                    None => serializer.serialize_i32(*number),
                }
            }
            scalar => super::encode::scalar(scalar, serializer),
        }
    }
}
