//! Rules about names that clash: in JSON, in generated code, and in a service.

use std::collections::HashMap;

use prost_reflect::Value;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, ServiceDescriptorProto,
};

use super::cursor::Cursor;
use crate::model::{Options, json_name};

/// Number of the `name` field in every descriptor.
const NAME: i32 = 1;

/// Reports JSON names of the current message that are equal or invalid. `must_differ` is false
/// where the language level tolerates equal default names (proto2).
pub(super) fn check_json_names(
    cursor: &mut Cursor<'_>,
    name: &str,
    proto: &DescriptorProto,
    options: &Options,
    must_differ: bool,
) {
    if !cursor.is_text() || options.is_true("deprecated_legacy_json_field_conflicts") {
        return;
    }
    let defaults: Vec<_> = proto.field.iter().map(|f| json_name(f.name())).collect();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    if must_differ {
        for ((field, json), index) in proto.field.iter().zip(&defaults).zip(0..) {
            if let Some(other) = seen.insert(json, field.name()) {
                let field = field.name();
                let why =
                    format!("{name}: the JSON name {json:?} of {field} is also that of {other}");
                cursor.rule(&[2, index, NAME], why);
            }
        }
    }
    // The same with `json_name`; two default names were compared above.
    let mut seen: HashMap<&str, (&str, bool)> = HashMap::new();
    for ((field, default), index) in proto.field.iter().zip(&defaults).zip(0..) {
        let json = field.json_name.as_deref().unwrap_or(default);
        let is_custom = json != default;
        if is_custom && json.starts_with('[') && json.ends_with(']') {
            let why = format!(
                "{name}: invalid json_name {json:?} of {}: names in brackets are for extensions",
                field.name()
            );
            cursor.rule(&[2, index, NAME], why);
            continue;
        }
        let Some((other, other_is_custom)) = seen.insert(json, (field.name(), is_custom)) else {
            continue;
        };
        // Where equal default names are tolerated, one of them may be a default.
        let is_error = if must_differ {
            is_custom || other_is_custom
        } else {
            is_custom && other_is_custom
        };
        if is_error {
            let field = field.name();
            let why = format!("{name}: the JSON name {json:?} of {field} is also that of {other}");
            cursor.rule(&[2, index, NAME], why);
        }
    }
}

/// Reports names of the `reserved` statements that occur twice; `list` is the field number of
/// the names.
pub(super) fn check_reserved_names(
    cursor: &mut Cursor<'_>,
    name: &str,
    list: i32,
    names: &[String],
) {
    let mut seen = HashMap::new();
    for (reserved, index) in names.iter().zip(0..) {
        if seen.insert(reserved, index).is_some() && cursor.is_text() {
            let why = format!("{name}: the name {reserved:?} is reserved twice");
            cursor.rule(&[list, index], why);
        }
    }
}

/// Reports values of the current enum whose names are equal in generated code, where the prefix
/// and the case of letters are dropped, and a wrong `allow_alias`.
pub(super) fn check_enum_names(
    cursor: &mut Cursor<'_>,
    name: &str,
    proto: &EnumDescriptorProto,
    options: &Options,
) {
    if !cursor.is_text() {
        return;
    }
    let mut seen: HashMap<String, (&str, i32)> = HashMap::new();
    for (value, index) in proto.value.iter().zip(0..) {
        let (written, number) = (value.name(), value.number());
        let short = without_prefix(proto.name(), written);
        let (other, other_number) = *seen.entry(pascal(short)).or_insert((written, number));
        // Aliases of one number may differ in prefix and case only.
        if other != written && other_number != number {
            let why = format!(
                "{name}: the names {written} and {other} are equal without prefix, \
                 underscores and case"
            );
            cursor.rule(&[2, index, NAME], why);
        }
    }
    let mut numbers: Vec<i32> = proto
        .value
        .iter()
        .map(EnumValueDescriptorProto::number)
        .collect();
    numbers.sort_unstable();
    let has_alias = numbers.windows(2).any(|pair| pair[0] == pair[1]);
    let allowed = options.get("allow_alias").and_then(Value::as_bool);
    let why = match allowed {
        Some(true) if !has_alias => "allow_alias is set, but no two values have one number",
        Some(false) => "allow_alias = false has no effect: remove it",
        _ => return,
    };
    cursor.rule(&[3], format!("{name}: {why}"));
}

/// Reports methods of the current service that have one name.
pub(super) fn check_methods(cursor: &mut Cursor<'_>, name: &str, proto: &ServiceDescriptorProto) {
    let mut seen = HashMap::new();
    for (method, index) in proto.method.iter().zip(0..) {
        if seen.insert(method.name(), index).is_some() {
            let why = format!("{name}.{} is declared twice", method.name());
            cursor.rule(&[2, index, NAME], why);
        }
    }
}

/// Returns the name of an enum value without the name of its enum in front, if something remains.
fn without_prefix<'a>(declared: &str, value: &'a str) -> &'a str {
    let prefix = declared.chars().filter(|c| *c != '_');
    let mut rest = value;
    for wanted in prefix {
        let next = rest.trim_start_matches('_');
        match next.chars().next() {
            Some(found) if found.eq_ignore_ascii_case(&wanted) => rest = &next[found.len_utf8()..],
            _ => return value,
        }
    }
    match rest.trim_start_matches('_') {
        "" => value,
        rest => rest,
    }
}

/// Returns a name in the case of generated code: `FOO_BAR` becomes `FooBar`.
fn pascal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = true;
    for c in name.chars() {
        match (c, upper) {
            ('_', _) => upper = true,
            (_, true) => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            (_, false) => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}
