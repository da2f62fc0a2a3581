//! Option values as text.

use std::fmt::Write as _;

use prost_reflect::{DynamicMessage, Kind, Value};

/// Formats an option as `name` and `value`, with one entry per value of a repeated option. A
/// message with only one set part is written with its path: `(validate.rules).string.min_len`.
pub(super) fn entries(name: &str, kind: &Kind, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::List(values) => {
            let each = values
                .iter()
                .map(|value| (name.to_owned(), text(kind, value)));
            each.collect()
        }
        Value::Message(message) => {
            let mut set = message.fields();
            let only = set.next().filter(|_| set.next().is_none());
            let plain = message.extensions().next().is_none();
            match only {
                Some((field, inner)) if plain && !field.is_list() && !field.is_map() => {
                    entries(&format!("{name}.{}", field.name()), &field.kind(), inner)
                }
                _ => vec![(name.to_owned(), text(kind, value))],
            }
        }
        _ => vec![(name.to_owned(), text(kind, value))],
    }
}

fn text(kind: &Kind, value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => value.to_string().to_lowercase(),
        Value::F64(value) => value.to_string().to_lowercase(),
        Value::String(text) => quoted(text.as_bytes(), true),
        Value::Bytes(bytes) => quoted(bytes, false),
        Value::EnumNumber(number) => kind
            .as_enum()
            .and_then(|of| Some(of.get_value(*number)?.name().to_owned()))
            .unwrap_or_else(|| number.to_string()),
        Value::Message(message) => self::message(message),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(|value| text(kind, value)).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Map(_) => String::new(),
    }
}

fn message(message: &DynamicMessage) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (field, value) in message.fields() {
        match value {
            Value::Map(pairs) => {
                let kind = field.kind();
                let Some(entry) = kind.as_message() else {
                    continue;
                };
                let (keys, values) = (entry.map_entry_key_field(), entry.map_entry_value_field());
                let mut entries: Vec<String> = pairs
                    .iter()
                    .map(|(key, value)| {
                        let key = text(&keys.kind(), &Value::from(key.clone()));
                        let value = text(&values.kind(), value);
                        format!("{}: {{key: {key}, value: {value}}}", field.name())
                    })
                    .collect();
                entries.sort_unstable();
                parts.extend(entries);
            }
            _ => {
                let kind = field.kind();
                // In text format a group has the name of its message.
                let group = kind.as_message().filter(|_| field.is_group());
                let name = group.map_or(field.name(), |group| group.name());
                parts.push(format!("{name}: {}", text(&kind, value)));
            }
        }
    }
    for (extension, value) in message.extensions() {
        let name = extension.full_name();
        parts.push(format!("[{name}]: {}", text(&extension.kind(), value)));
    }
    format!("{{{}}}", parts.join(", "))
}

/// Formats a string literal. Bytes outside printable ASCII are escaped; text is kept as UTF-8.
pub(super) fn quoted(bytes: &[u8], utf8: bool) -> String {
    let mut out = String::from("\"");
    let escape = |out: &mut String, byte: u8| {
        // Writing to a string does not fail.
        let _ = write!(out, "\\{byte:03o}");
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if utf8 => {
            for letter in text.chars() {
                match letter {
                    '"' => out.push_str("\\\""),
                    '\\' => out.push_str("\\\\"),
                    '\n' => out.push_str("\\n"),
                    letter if letter.is_ascii_control() => escape(&mut out, letter as u8),
                    letter => out.push(letter),
                }
            }
        }
        _ => {
            for byte in bytes {
                match byte {
                    b'"' => out.push_str("\\\""),
                    b'\\' => out.push_str("\\\\"),
                    b' '..=b'~' => out.push(char::from(*byte)),
                    byte => escape(&mut out, *byte),
                }
            }
        }
    }
    out.push('"');
    out
}
