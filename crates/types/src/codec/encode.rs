//! Writes resources to files that [`decode`](super::decode) reads.

use prost::Message as _;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DynamicMessage, Kind, MapKey, SerializeOptions, Value};
use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::canonical;
use super::resource::{Format, RESPONSE};
use super::tree::TYPE;
use crate::depth::{self, CARRIERS, MAX_DEPTH, on_stack_for};
use crate::discovery::{Any, DiscoveryResponse};
use crate::path::key_text;
use crate::schema::{self, Message, Shape, Type, WellKnown, unpack};

/// The reason for which resources cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The descriptors know no such message.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The bytes do not decode as the message type of the type URL.
    #[error("malformed {message}: {reason}")]
    Malformed {
        /// Full name of the message type.
        message: String,
        /// Error of the decoder.
        reason: String,
    },
    /// The format cannot represent the message.
    #[error("not representable in the format: {0}")]
    Unwritable(String),
}

/// Writes resources as a file that [`decode`](super::decode) reads: a `DiscoveryResponse` in text format and binary, a
/// list in JSON, one document per resource in YAML.
///
/// Equal input gives equal output, except that text format writes map entries in any order.
///
/// # Errors
/// The type of a resource is unknown, its bytes do not decode, it nests too deep, or the format cannot represent it.
pub fn encode(resources: &[Any], format: Format) -> Result<Vec<u8>, EncodeError> {
    if format == Format::Binary {
        return write(resources, format);
    }
    let levels = resources.iter().map(|any| Ok(measure(any)?.1));
    let levels: Vec<usize> = levels.collect::<Result<_, EncodeError>>()?;
    let deepest = levels.into_iter().max().unwrap_or_default();
    on_stack_for(deepest, || write(resources, format))
}

/// Returns the schema of a resource, and the levels of messages in it.
pub(super) fn measure(any: &Any) -> Result<(&'static Message, usize), EncodeError> {
    let unknown = || EncodeError::UnknownType(any.type_url.clone());
    let name = any.type_url.rsplit_once('/').ok_or_else(unknown)?.1;
    let schema = schema::find(name).ok_or_else(unknown)?;
    // A resource may be a response with resources in it, as CSDS has.
    let levels = depth::measure(schema, &any.value, MAX_DEPTH + CARRIERS);
    let levels = levels.map_err(|deep| malformed(schema.full_name(), &deep))?;
    Ok((schema, levels))
}

fn write(resources: &[Any], format: Format) -> Result<Vec<u8>, EncodeError> {
    let unwritable = |e: &dyn std::fmt::Display| EncodeError::Unwritable(e.to_string());
    match format {
        Format::Yaml => {
            let mut out = String::new();
            for resource in resources {
                out.push_str("---\n");
                let message = read(resource)?;
                serde_saphyr::to_fmt_writer(&mut out, &message).map_err(|e| unwritable(&e))?;
            }
            Ok(out.into_bytes())
        }
        Format::Json => {
            let messages = resources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            let mut out = serde_json::to_vec_pretty(&messages).map_err(|e| unwritable(&e))?;
            out.push(b'\n');
            Ok(out)
        }
        Format::Text => {
            let options = FormatOptions::new().pretty(true).expand_any(true);
            let (schema, mut response) = response(resources)?;
            // A binary file may have an `Any` whose type URL the grammar of text format does not allow.
            canonical::normalise(schema, &mut response);
            Ok(response.to_text_format_with_options(&options).into_bytes())
        }
        Format::Binary => {
            let resources = resources.to_vec();
            Ok(DiscoveryResponse {
                resources,
                ..Default::default()
            }
            .encode_to_vec())
        }
    }
}

pub(super) fn read(any: &Any) -> Result<TypedView, EncodeError> {
    let (schema, _) = measure(any)?;
    let message = DynamicMessage::decode(schema.descriptor.clone(), any.value.clone());
    let message = message.map_err(|error| malformed(schema.full_name(), &error))?;
    Ok(TypedView {
        type_url: any.type_url.clone(),
        schema,
        message,
    })
}

fn malformed(message: &str, reason: &dyn std::fmt::Display) -> EncodeError {
    EncodeError::Malformed {
        message: message.to_owned(),
        reason: reason.to_string(),
    }
}

fn response(resources: &[Any]) -> Result<(&'static Message, DynamicMessage), EncodeError> {
    let schema =
        schema::find(RESPONSE).ok_or_else(|| EncodeError::UnknownType(RESPONSE.to_owned()))?;
    let mut response = DynamicMessage::new(schema.descriptor.clone());
    let resources = resources.to_vec();
    response
        .transcode_from(&DiscoveryResponse {
            resources,
            ..Default::default()
        })
        .map_err(|error| malformed(RESPONSE, &error))?;
    Ok((schema, response))
}

/// The message in an `Any`, serialized with its `@type`.
pub(super) struct TypedView {
    type_url: String,
    schema: &'static Message,
    pub(super) message: DynamicMessage,
}

impl Serialize for TypedView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(TYPE, &self.type_url)?;
        let view = MessageView {
            schema: self.schema,
            message: &self.message,
        };
        match self.schema.well_known {
            Some(_) => map.serialize_entry("value", &view)?,
            None => view.fields(&mut map)?,
        }
        map.end()
    }
}

/// A message in the JSON mapping, with the field names of the proto files, as in Envoy's documentation. `prost-reflect`
/// also offers this, but writes map entries in random order.
pub(crate) struct MessageView<'a> {
    pub(crate) schema: &'static Message,
    pub(crate) message: &'a DynamicMessage,
}

impl MessageView<'_> {
    /// Serializes the one field that represents the message: the map of a `Struct`, the list of a `ListValue`, the
    /// alternative of a `Value`, the scalar of a wrapper.
    fn only_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let set = self.message.fields().next();
        let number = set
            .as_ref()
            .map_or(1, |(descriptor, _)| descriptor.number());
        let value = self.message.get_field_by_number(number);
        match (self.schema.field(number), &value) {
            (Some(field), Some(value)) => FieldView {
                shape: &field.shape,
                value,
            }
            .serialize(serializer),
            _ => Err(S::Error::custom("a well-known type without its field")),
        }
    }

    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (descriptor, value) in self.message.fields() {
            let Some(field) = self.schema.field(descriptor.number()) else {
                continue;
            };
            map.serialize_entry(
                &field.name,
                &FieldView {
                    shape: &field.shape,
                    value,
                },
            )?;
        }
        Ok(())
    }
}

impl Serialize for MessageView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.schema.well_known {
            Some(WellKnown::Any) => match unpack(self.message) {
                Some((schema, message)) => {
                    let type_url = canonical::type_url(schema);
                    TypedView {
                        type_url,
                        schema,
                        message,
                    }
                    .serialize(serializer)
                }
                None if self.message.fields().next().is_none() => {
                    serializer.serialize_map(Some(0))?.end()
                }
                None => Err(S::Error::custom("an Any of unknown type")),
            },
            Some(WellKnown::Wrapper) => self.only_field(serializer),
            Some(WellKnown::Other) => match self.schema.full_name() {
                "google.protobuf.Struct" | "google.protobuf.ListValue" => {
                    self.only_field(serializer)
                }
                "google.protobuf.Value" => match self.message.fields().next() {
                    Some(_) => self.only_field(serializer),
                    // A `Value` without a kind: clients read it as null.
                    None => serializer.serialize_unit(),
                },
                _ => self
                    .message
                    .serialize_with_options(serializer, &SerializeOptions::new()),
            },
            None => {
                let mut map = serializer.serialize_map(None)?;
                self.fields(&mut map)?;
                map.end()
            }
        }
    }
}

struct FieldView<'a> {
    shape: &'static Shape,
    value: &'a Value,
}

impl Serialize for FieldView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.shape, self.value) {
            (Shape::List(ty), Value::List(values)) => {
                let mut seq = serializer.serialize_seq(Some(values.len()))?;
                values
                    .iter()
                    .try_for_each(|value| seq.serialize_element(&ValueView { ty, value }))?;
                seq.end()
            }
            (Shape::Map { value: ty, .. }, Value::Map(values)) => {
                let mut entries: Vec<(&MapKey, &Value)> = values.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&key_text(key), &ValueView { ty, value })?;
                }
                map.end()
            }
            (Shape::One(ty), value) => ValueView { ty, value }.serialize(serializer),
            _ => Err(S::Error::custom("a value of another shape than its field")),
        }
    }
}

struct ValueView<'a> {
    ty: &'static Type,
    value: &'a Value,
}

impl Serialize for ValueView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, &self.ty.kind) {
            (Value::Message(message), _) => match self.ty.message() {
                Some(schema) => MessageView { schema, message }.serialize(serializer),
                None => Err(S::Error::custom("a message without a schema")),
            },
            (Value::EnumNumber(number), Kind::Enum(descriptor)) => {
                match descriptor.get_value(*number) {
                    Some(_) if descriptor.full_name() == "google.protobuf.NullValue" => {
                        serializer.serialize_unit()
                    }
                    Some(known) => serializer.serialize_str(known.name()),
                    None => serializer.serialize_i32(*number),
                }
            }
            (value, _) => scalar(value, serializer),
        }
    }
}

/// Serializes a number, a bool, a string or bytes.
pub(crate) fn scalar<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Value::Bool(value) => serializer.serialize_bool(*value),
        Value::String(value) => serializer.serialize_str(value),
        Value::I32(value) => serializer.serialize_i32(*value),
        Value::U32(value) => serializer.serialize_u32(*value),
        // ProtoJSON: 64-bit integers are strings, because many parsers read numbers as 64-bit floats.
        Value::I64(value) => serializer.collect_str(value),
        Value::U64(value) => serializer.collect_str(value),
        Value::F32(value) => float(f64::from(*value), serializer, |s| s.serialize_f32(*value)),
        Value::F64(value) => float(*value, serializer, |s| s.serialize_f64(*value)),
        Value::Bytes(value) => serializer.serialize_str(&base64(value)),
        _ => Err(S::Error::custom("a value of another type than its field")),
    }
}

fn float<S: Serializer>(
    value: f64,
    serializer: S,
    finite: impl FnOnce(S) -> Result<S::Ok, S::Error>,
) -> Result<S::Ok, S::Error> {
    match value {
        value if value.is_finite() => finite(serializer),
        value if value.is_nan() => serializer.serialize_str("NaN"),
        value if value > 0.0 => serializer.serialize_str("Infinity"),
        _ => serializer.serialize_str("-Infinity"),
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}
