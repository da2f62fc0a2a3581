//! Rules as people write them: `gte: 1`, `in: ["a", "b"]`.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

/// Formats a rule with its value.
pub(super) fn rule(name: &str, value: &Value) -> String {
    format!("{name}: {}", self::value(value))
}

/// Formats a value on one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) | Value::EnumNumber(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Message(message) => time(message).unwrap_or_else(|| message.to_text_format()),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(self::value).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Map(values) => {
            let mut pairs: Vec<String> = values
                .iter()
                .map(|(key, value)| format!("{key:?}: {}", self::value(value)))
                .collect();
            pairs.sort_unstable();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn time(message: &DynamicMessage) -> Option<String> {
    let seconds = message.get_field_by_name("seconds")?.as_i64()?;
    let nanos = message.get_field_by_name("nanos")?.as_i32()?;
    match message.descriptor().full_name() {
        "google.protobuf.Duration" => Some(duration(seconds, nanos)),
        "google.protobuf.Timestamp" => Some(jiff::Timestamp::new(seconds, nanos).ok()?.to_string()),
        _ => None,
    }
}

fn duration(seconds: i64, nanos: i32) -> String {
    if nanos == 0 {
        return format!("{seconds}s");
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let fraction = format!("{:09}", nanos.unsigned_abs());
    format!(
        "{sign}{}.{}s",
        seconds.unsigned_abs(),
        fraction.trim_end_matches('0')
    )
}
