//! Mapping of ordered values to integers in the same order.

use prost_reflect::{DynamicMessage, Value};

use super::set::Set;

/// Number of nanoseconds per second.
const NANOS: i128 = 1_000_000_000;
/// Bound in seconds, far outside protobuf's longest duration and latest timestamp.
const SECONDS: i128 = i64::MAX as i128;

/// Returns all values of the type of a rules field (`uint32`, `duration` …), or `None` if the type
/// is not ordered.
pub(super) fn whole(rules: &str) -> Option<Set> {
    let (first, last) = match rules {
        "int32" | "sint32" | "sfixed32" | "enum" => (i32::MIN.into(), i32::MAX.into()),
        "int64" | "sint64" | "sfixed64" => (i64::MIN.into(), i64::MAX.into()),
        "uint32" | "fixed32" => (0, u32::MAX.into()),
        "uint64" | "fixed64" => (0, u64::MAX.into()),
        "bool" => (0, 1),
        "float" => (float(f32::NEG_INFINITY), float(f32::INFINITY)),
        "double" => (double(f64::NEG_INFINITY), double(f64::INFINITY)),
        "duration" | "timestamp" => (-SECONDS * NANOS, SECONDS * NANOS),
        _ => return None,
    };
    Some(Set::between(first, last))
}

/// Returns the numbers that are neither infinite nor NaN (`finite` of protovalidate).
pub(super) fn finite(rules: &str) -> Option<Set> {
    match rules {
        "float" => Some(Set::between(float(f32::MIN), float(f32::MAX))),
        "double" => Some(Set::between(double(f64::MIN), double(f64::MAX))),
        _ => None,
    }
}

/// Returns all lengths and counts.
pub(super) fn counts() -> Set {
    Set::between(0, u64::MAX.into())
}

/// Returns the integer of a value of an ordered type. Neighbouring integers are neighbouring
/// values, so `> x` equals `>= x + 1` for all types.
pub(super) fn ordinal(value: &Value) -> Option<i128> {
    Some(match value {
        Value::Bool(value) => i128::from(*value),
        Value::I32(value) | Value::EnumNumber(value) => i128::from(*value),
        Value::I64(value) => i128::from(*value),
        Value::U32(value) => i128::from(*value),
        Value::U64(value) => i128::from(*value),
        Value::F32(value) => float(*value),
        Value::F64(value) => double(*value),
        Value::Message(message) => nanos(message)?,
        _ => return None,
    })
}

/// Returns the nanoseconds of a `Duration` or `Timestamp`.
pub(super) fn nanos(message: &DynamicMessage) -> Option<i128> {
    let seconds = message.get_field_by_name("seconds")?.as_i64()?;
    let nanos = message.get_field_by_name("nanos")?.as_i32()?;
    Some(i128::from(seconds) * NANOS + i128::from(nanos))
}

// The bits of positive floats have the order of the floats; those of negative floats are reversed.
// Both zeros map to 0.
fn float(value: f32) -> i128 {
    let magnitude = i128::from(value.to_bits() & (u32::MAX >> 1));
    if value.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn double(value: f64) -> i128 {
    let magnitude = i128::from(value.to_bits() & (u64::MAX >> 1));
    if value.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::{double, float};

    #[test]
    fn float_mapping_keeps_the_order() {
        let sorted = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 1.0, f64::MAX];
        assert!(
            sorted
                .windows(2)
                .all(|pair| double(pair[0]) < double(pair[1]))
        );
        assert_eq!(double(-0.0), double(0.0));
        assert_eq!(float(f32::MAX) + 1, float(f32::INFINITY));
    }
}
