//! What is to be said of a message that was read whole, from text format or binary: fields that
//! the descriptors do not know, and deprecated ones.

use prost_reflect::{DynamicMessage, Value};

use super::Options;
use crate::error::Reason;
use crate::path::{Path, Step};
use crate::schema::{Message, Shape, Type, WellKnown};
use crate::validate::{key_text, unpack};

/// Reports findings about `message`, which `path` leads to, and about what is in it.
pub(super) fn inspect(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut Path,
    options: &Options,
    note: &mut dyn FnMut(&Path, Reason),
) {
    if !options.allow_unknown_fields {
        for unknown in message.unknown_fields() {
            let field = unknown.number().to_string();
            path.push(Step::Unknown(field.clone()));
            note(
                path,
                Reason::UnknownField {
                    field,
                    message: schema.full_name().to_owned(),
                },
            );
            path.pop();
        }
    }
    for (descriptor, value) in message.fields() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        path.push(Step::Field(&field.name));
        if field.deprecated {
            note(path, Reason::Deprecated);
        }
        match (&field.shape, value) {
            (Shape::One(ty), value) => inspect_value(ty, value, path, options, note),
            (Shape::List(ty), Value::List(values)) => {
                for (index, value) in values.iter().enumerate() {
                    path.push(Step::Index(index));
                    inspect_value(ty, value, path, options, note);
                    path.pop();
                }
            }
            (Shape::Map { value: ty, .. }, Value::Map(values)) => {
                for (key, value) in values {
                    path.push(Step::Key(key_text(key)));
                    inspect_value(ty, value, path, options, note);
                    path.pop();
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn inspect_value(
    ty: &'static Type,
    value: &Value,
    path: &mut Path,
    options: &Options,
    note: &mut dyn FnMut(&Path, Reason),
) {
    let (Some(schema), Value::Message(message)) = (ty.message(), value) else {
        return;
    };
    match schema.well_known {
        None => inspect(schema, message, path, options, note),
        Some(WellKnown::Any) => match unpack(message) {
            Some((schema, message)) => inspect(schema, &message, path, options, note),
            None => {
                let url = message.get_field_by_number(1);
                let url = url
                    .as_ref()
                    .and_then(|url| url.as_str())
                    .unwrap_or_default();
                if !url.is_empty() && !options.allow_unknown_fields {
                    note(path, Reason::UnknownType(url.to_owned()));
                }
            }
        },
        Some(_) => {}
    }
}
