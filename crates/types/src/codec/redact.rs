//! Removal of secrets from a resource, for people who look at it.
//!
//! The descriptors decide: fields with `udpa.annotations.sensitive`, and everything in a `Secret`. They do not cover a `Struct`, whose
//! fields have no descriptors, nor messages of API v2, whose descriptors have no annotations.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Kind, Value};

use super::encode::{EncodeError, read};
use crate::depth::on_stack_for;
use crate::discovery::Any;
use crate::schema::{Message, Type, WellKnown, unpack};

/// Text in place of a secret text.
pub const REDACTED: &str = "(not shown)";

/// Messages that are secrets as a whole.
const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
/// Message whose names of files and of variables are no secrets, though its content may be one.
const DATA_SOURCE: &str = "envoy.config.core.v3.DataSource";

/// Returns a resource without its secrets: texts are [`REDACTED`], bytes are empty, and numbers have their default. The content of an
/// `Any` of unknown type is removed.
///
/// # Errors
/// The type of the resource is unknown, its bytes do not decode, or it nests too deep.
pub fn redact(any: &Any) -> Result<Any, EncodeError> {
    let (schema, levels) = super::encode::measure(any)?;
    let value = on_stack_for(levels, || {
        let mut message = read(any)?.message;
        redact_message(schema, &mut message, false);
        Ok(message.encode_to_vec())
    })?;
    Ok(Any {
        type_url: any.type_url.clone(),
        value: value.into(),
    })
}

fn redact_message(schema: &Message, message: &mut DynamicMessage, is_secret: bool) {
    if schema.well_known == Some(WellKnown::Any) {
        return redact_any(message, is_secret);
    }
    let is_secret = is_secret || schema.full_name() == SECRET;
    for field in &schema.fields {
        if !message.has_field(&field.descriptor) {
            continue;
        }
        let names_a_place = schema.full_name() == DATA_SOURCE && !field.name.starts_with("inline_");
        let is_secret = (is_secret || field.is_sensitive) && !names_a_place;
        let of = field.shape.value();
        if is_secret || of.message().is_some() {
            redact_value(of, message.get_field_mut(&field.descriptor), is_secret);
        }
    }
}

fn redact_value(of: &Type, value: &mut Value, is_secret: bool) {
    match value {
        Value::Message(message) => {
            if let Some(schema) = of.message() {
                redact_message(schema, message, is_secret);
            }
        }
        Value::List(items) => {
            for item in items {
                redact_value(of, item, is_secret);
            }
        }
        Value::Map(entries) => {
            for entry in entries.values_mut() {
                redact_value(of, entry, is_secret);
            }
        }
        value if is_secret => {
            *value = match of.kind {
                Kind::String => Value::String(REDACTED.to_owned()),
                ref kind => Value::default_value(kind),
            };
        }
        _ => {}
    }
}

/// Redacts the message in an `Any`.
fn redact_any(any: &mut DynamicMessage, is_secret: bool) {
    let value = unpack(any).map(|(schema, mut message)| {
        redact_message(schema, &mut message, is_secret);
        message.encode_to_vec()
    });
    let value = Bytes::from(value.unwrap_or_default());
    any.set_field_by_number(2, Value::Bytes(value));
}
