//! Canonical encoding of options: protobuf encoding with fields sorted by number, nothing packed,
//! and map entries sorted by their bytes. Unknown fields keep their bytes and are sorted by number.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};

use super::node::varint;
use crate::model::Options;

/// Standard options that count. The others configure code generators, or the model contains their
/// resolved effect: packing, presence, closed enums.
const COUNTING: &[(&str, &[u32])] = &[
    ("google.protobuf.FileOptions", &[23]),      // deprecated
    ("google.protobuf.MessageOptions", &[1, 3]), // message_set_wire_format, deprecated
    ("google.protobuf.FieldOptions", &[3, 16]),  // deprecated, debug_redact
    ("google.protobuf.OneofOptions", &[]),
    ("google.protobuf.EnumOptions", &[2, 3]), // allow_alias, deprecated
    ("google.protobuf.EnumValueOptions", &[1, 3]), // deprecated, debug_redact
    ("google.protobuf.ServiceOptions", &[33]), // deprecated
    ("google.protobuf.MethodOptions", &[33, 34]), // deprecated, idempotency_level
    // Features of editions that the model does not contain in resolved form.
    (FEATURES, &[UTF8, 6]), // utf8_validation, json_format
];

const FEATURES: &str = "google.protobuf.FeatureSet";

/// Number of `utf8_validation` in it.
const UTF8: u32 = 4;

/// Wire types of protobuf.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

/// Encodes options without the option `except` (full name of the version option).
pub(super) fn canonical(options: &Options, except: &str) -> Vec<u8> {
    options
        .message()
        .map(|message| self::message(message, except))
        .unwrap_or_default()
}

/// Returns the value of one feature of a file, by number.
pub(super) fn file_feature(options: &Options, number: u32) -> Option<i32> {
    let features = options.get("features")?.as_message()?;
    features
        .fields()
        .find(|(field, _)| field.number() == number)
        .and_then(|(field, value)| Some(feature(field.number(), value.as_enum_number()?)))
}

/// Returns the language's number of a feature value: the descriptors here encode `utf8_validation =
/// NONE` as 1.
fn feature(number: u32, value: i32) -> i32 {
    match (number, value) {
        (UTF8, 1) => 3,
        _ => value,
    }
}

fn message(message: &DynamicMessage, except: &str) -> Vec<u8> {
    let descriptor = message.descriptor();
    let name = descriptor.full_name();
    let mut fields: Vec<(u32, Vec<u8>)> = Vec::new();
    for (known, value) in message.fields() {
        let mut out = Vec::new();
        match value {
            Value::Message(features) if known.name() == "features" && is_standard(name) => {
                // The node of the file contains its resolved features.
                let inner = self::message(features, except);
                if !inner.is_empty() && name != "google.protobuf.FileOptions" {
                    delimited(&mut out, known.number(), &inner);
                }
            }
            Value::EnumNumber(value) if known.number() == UTF8 && name == FEATURES => {
                let value = Value::EnumNumber(feature(UTF8, *value));
                single(&mut out, UTF8, &known.kind(), &value, except);
            }
            _ if counts(name, &known, value) => {
                field(&mut out, known.number(), &known.kind(), value, except);
            }
            _ => {}
        }
        fields.push((known.number(), out));
    }
    for (extension, value) in message.extensions() {
        // The version option is not part of the hash of its file (V-21).
        if extension.full_name() != except {
            let mut out = Vec::new();
            field(
                &mut out,
                extension.number(),
                &extension.kind(),
                value,
                except,
            );
            fields.push((extension.number(), out));
        }
    }
    fields.extend(message.unknown_fields().map(|field| {
        let mut bytes = Vec::new();
        field.encode(&mut bytes);
        (field.number(), bytes)
    }));
    fields.sort_unstable();
    fields.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn is_standard(message: &str) -> bool {
    COUNTING.iter().any(|(name, _)| *name == message)
}

/// Returns whether a field of options counts. Only some standard options count, and only with a
/// value other than the default (`deprecated = false`). All custom options count.
fn counts(message: &str, field: &FieldDescriptor, value: &Value) -> bool {
    match COUNTING.iter().find(|(name, _)| *name == message) {
        None => true,
        Some((name, numbers)) => {
            numbers.contains(&field.number())
                && (*name == FEATURES || !value.is_default_for_field(field))
        }
    }
}

fn field(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value, except: &str) {
    match value {
        Value::List(values) => {
            for value in values {
                field(out, number, kind, value, except);
            }
        }
        Value::Map(pairs) => {
            let mut entries: Vec<Vec<u8>> = pairs
                .iter()
                .map(|(key, value)| entry(kind, key, value, except))
                .collect();
            entries.sort_unstable();
            for entry in entries {
                delimited(out, number, &entry);
            }
        }
        _ => single(out, number, kind, value, except),
    }
}

fn entry(kind: &Kind, key: &MapKey, value: &Value, except: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if let Kind::Message(entry) = kind {
        let (key_field, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        single(
            &mut out,
            1,
            &key_field.kind(),
            &Value::from(key.clone()),
            except,
        );
        single(&mut out, 2, &value_field.kind(), value, except);
    }
    out
}

fn single(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value, except: &str) {
    let zigzag = |value: i64| ((value << 1) ^ (value >> 63)) as u64;
    match (value, kind) {
        (Value::Message(inner), _) => delimited(out, number, &message(inner, except)),
        (Value::String(text), _) => delimited(out, number, text.as_bytes()),
        (Value::Bytes(bytes), _) => delimited(out, number, bytes),
        (Value::F32(value), _) => fixed(out, number, FIXED32, &value.to_le_bytes()),
        (Value::F64(value), _) => fixed(out, number, FIXED64, &value.to_le_bytes()),
        (Value::I32(value), Kind::Sfixed32) => fixed(out, number, FIXED32, &value.to_le_bytes()),
        (Value::U32(value), Kind::Fixed32) => fixed(out, number, FIXED32, &value.to_le_bytes()),
        (Value::I64(value), Kind::Sfixed64) => fixed(out, number, FIXED64, &value.to_le_bytes()),
        (Value::U64(value), Kind::Fixed64) => fixed(out, number, FIXED64, &value.to_le_bytes()),
        (Value::I32(value), Kind::Sint32) => whole(out, number, zigzag((*value).into())),
        (Value::I64(value), Kind::Sint64) => whole(out, number, zigzag(*value)),
        // A negative number takes ten bytes in protobuf.
        (Value::I32(value) | Value::EnumNumber(value), _) => {
            whole(out, number, i64::from(*value) as u64);
        }
        (Value::I64(value), _) => whole(out, number, *value as u64),
        (Value::U32(value), _) => whole(out, number, (*value).into()),
        (Value::U64(value), _) => whole(out, number, *value),
        (Value::Bool(value), _) => whole(out, number, (*value).into()),
        // The caller splits lists and maps.
        (Value::List(_) | Value::Map(_), _) => {}
    }
}

fn key(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

fn whole(out: &mut Vec<u8>, number: u32, value: u64) {
    key(out, number, VARINT);
    varint(out, value);
}

fn fixed(out: &mut Vec<u8>, number: u32, wire_type: u32, bytes: &[u8]) {
    key(out, number, wire_type);
    out.extend_from_slice(bytes);
}

fn delimited(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    key(out, number, DELIMITED);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
