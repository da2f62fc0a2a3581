//! The canonical form of a message: in API v3, with fields sorted by number and map entries by key.
//!
//! Versions are hashes of this encoding (S-29), so it must be the same on every replica, whatever the order and the
//! API version in a file (S-64).

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage, Value};

use super::walk::Walk;
use crate::ApiVersion;
use crate::error::Reason;
use crate::path::FieldPath;
use crate::resource_type::TYPE_URL_PREFIX;
use crate::schema::{Message, Shape, Type, WellKnown, unpack};
use crate::version_map::{Incompatibility, may_be_old, rewrite, successor};

/// Appends the canonical encoding of `message`. Unknown fields follow the known ones, as they were (V-58).
pub(crate) fn encode(schema: &'static Message, message: &DynamicMessage, out: &mut Vec<u8>) {
    for (descriptor, value) in message.fields() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        match (&field.shape, value) {
            (Shape::One(ty), value) => put(field.number, ty, value, out),
            (Shape::List(ty), Value::List(values)) if field.descriptor.is_packed() => {
                encode_key(field.number, WireType::LengthDelimited, out);
                delimited(out, |out| {
                    values
                        .iter()
                        .for_each(|value| put_bare(&ty.kind, value, out));
                });
            }
            (Shape::List(ty), Value::List(values)) => {
                values
                    .iter()
                    .for_each(|value| put(field.number, ty, value, out));
            }
            (
                Shape::Map {
                    key: key_type,
                    value: ty,
                },
                Value::Map(values),
            ) => {
                let mut entries: Vec<(&MapKey, &Value)> = values.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    encode_key(field.number, WireType::LengthDelimited, out);
                    delimited(out, |out| {
                        put_scalar(1, key_type, &Value::from(key.clone()), out);
                        put(2, ty, value, out);
                    });
                }
            }
            _ => {}
        }
    }
    for unknown in message.unknown_fields() {
        unknown.encode(out);
    }
}

/// Makes the bodies of all `Any` messages in `message` canonical, for messages that were read from text, where the
/// author did not choose the bytes. An `Any` of unknown type is not changed.
pub(crate) fn normalise(schema: &'static Message, message: &mut DynamicMessage) {
    if schema.well_known == Some(WellKnown::Any) {
        if let Some((schema, mut inner)) = unpack(message) {
            normalise(schema, &mut inner);
            *message = pack(message, schema, &inner);
        }
        return;
    }
    for (descriptor, value) in message.fields_mut() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        let (Shape::One(ty) | Shape::List(ty) | Shape::Map { value: ty, .. }) = &field.shape;
        let Some(schema) = ty.message() else { continue };
        match value {
            Value::Message(message) => normalise(schema, message),
            Value::List(values) => {
                let messages = values.iter_mut().filter_map(Value::as_message_mut);
                messages.for_each(|message| normalise(schema, message));
            }
            Value::Map(values) => {
                let messages = values.values_mut().filter_map(Value::as_message_mut);
                messages.for_each(|message| normalise(schema, message));
            }
            _ => {}
        }
    }
}

/// Returns an `Any` that holds `inner`.
fn pack(any: &DynamicMessage, schema: &'static Message, inner: &DynamicMessage) -> DynamicMessage {
    let mut packed = DynamicMessage::new(any.descriptor());
    let mut value = Vec::new();
    encode(schema, inner, &mut value);
    packed.set_field_by_number(1, Value::String(type_url(schema)));
    packed.set_field_by_number(2, Value::Bytes(value.into()));
    packed
}

/// Returns the type URL of messages with this schema.
pub(crate) fn type_url(schema: &Message) -> String {
    format!("{TYPE_URL_PREFIX}{}", schema.full_name())
}

fn put(number: u32, ty: &'static Type, value: &Value, out: &mut Vec<u8>) {
    let (Some(schema), Value::Message(message)) = (ty.message(), value) else {
        return put_scalar(number, &ty.kind, value, out);
    };
    encode_key(number, WireType::LengthDelimited, out);
    delimited(out, |out| encode(schema, message, out));
}

fn put_scalar(number: u32, kind: &Kind, value: &Value, out: &mut Vec<u8>) {
    encode_key(number, kind.wire_type(), out);
    put_bare(kind, value, out);
}

/// Appends a scalar without its key, as in a packed list.
fn put_bare(kind: &Kind, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        (Kind::Sint32, Value::I32(v)) => {
            encode_varint(u64::from(((v << 1) ^ (v >> 31)) as u32), out);
        }
        (Kind::Sint64, Value::I64(v)) => encode_varint(((v << 1) ^ (v >> 63)) as u64, out),
        (Kind::Sfixed32, Value::I32(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (Kind::Sfixed64, Value::I64(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (Kind::Fixed32, Value::U32(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (Kind::Fixed64, Value::U64(v)) => out.extend_from_slice(&v.to_le_bytes()),
        // Negative numbers take ten bytes: protobuf extends the sign.
        (_, Value::I32(v) | Value::EnumNumber(v)) => encode_varint(i64::from(*v) as u64, out),
        (_, Value::I64(v)) => encode_varint(*v as u64, out),
        (_, Value::U32(v)) => encode_varint(u64::from(*v), out),
        (_, Value::U64(v)) => encode_varint(*v, out),
        (_, Value::Bool(v)) => out.push(u8::from(*v)),
        (_, Value::F32(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (_, Value::F64(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (_, Value::String(v)) => put_bytes(v.as_bytes(), out),
        (_, Value::Bytes(v)) => put_bytes(v, out),
        (_, Value::Message(_) | Value::List(_) | Value::Map(_)) => {}
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends the length of a body, then the body. One byte is reserved for the length. A longer length moves the body,
/// which is cheaper than measuring every body first.
fn delimited(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    body(out);
    let len = out.len() - start - 1;
    if len < 0x80 {
        out[start] = len as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    encode_varint(len as u64, &mut prefix);
    out.splice(start..=start, prefix);
}

/// A v3 message with its schema. As an error: parts of the message do not exist in v3. They were recorded as findings
/// and are missing here, so further checks of the message are useless.
type Current<T> = Result<(&'static Message, T), (&'static Message, T)>;

/// Converts a message that was read from text to API v3 (S-64).
pub(super) fn to_current(
    schema: &'static Message,
    message: DynamicMessage,
    walk: &Walk,
) -> Current<DynamicMessage> {
    if schema.api == ApiVersion::V3 {
        return Ok((schema, message));
    }
    let mut value = Vec::new();
    encode(schema, &message, &mut value);
    let decode = |(schema, value): (&'static Message, Bytes)| {
        // The bytes were encoded above, so decoding cannot fail.
        let message = DynamicMessage::decode(schema.descriptor.clone(), value).unwrap_or(message);
        (schema, message)
    };
    match bytes_to_current(schema, value.into(), &mut walk.path(), walk) {
        Ok(current) => Ok(decode(current)),
        Err(current) => Err(decode(current)),
    }
}

/// Converts the content of each `TypedStruct` in a canonical message to API v3: it is JSON, which the readers of text
/// do not descend into.
pub(super) fn struct_to_current(schema: &'static Message, value: Bytes, walk: &Walk) -> Bytes {
    let converted = bytes_to_current(schema, value.clone(), &mut walk.path(), walk);
    let (Ok((_, converted)) | Err((_, converted))) = converted;
    if converted == value {
        return value;
    }
    match DynamicMessage::decode(schema.descriptor.clone(), converted.clone()) {
        Ok(mut message) => {
            let mut value = Vec::new();
            normalise(schema, &mut message);
            encode(schema, &message, &mut value);
            value.into()
        }
        Err(_) => converted,
    }
}

/// Converts an encoded message at `path` to API v3. Bytes without v2 content are returned unchanged.
pub(super) fn bytes_to_current(
    schema: &'static Message,
    value: Bytes,
    path: &mut FieldPath,
    walk: &Walk,
) -> Current<Bytes> {
    if schema.api == ApiVersion::V3 && !may_be_old(&value) {
        return Ok((schema, value));
    }
    let mark = walk.mark();
    let mut note = |path: &FieldPath, cause| walk.note_at(path.clone(), Reason::OnlyV2(cause));
    let Some(current) = successor(schema) else {
        let message = schema.full_name().to_owned();
        let to = ApiVersion::V3.into();
        note(path, Incompatibility::NoMessage { message, to });
        return Err((schema, value));
    };
    let rewritten = rewrite(schema.full_name(), &value, path, &mut note);
    let value = if rewritten == value {
        value
    } else {
        rewritten.into()
    };
    if walk.mark() == mark {
        Ok((current, value))
    } else {
        Err((current, value))
    }
}
