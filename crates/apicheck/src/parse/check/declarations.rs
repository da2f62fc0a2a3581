//! Extension declarations: the extensions that a range announces (protobuf guide, "Extension
//! Declarations").

use std::collections::HashSet;

use prost_reflect::{DynamicMessage, Value};

use super::Check;
use crate::model::{Cardinality, Extension, Kind, Message, NumberRange, Options, Scalar, Tree};

/// Entry `declaration` of an extension range.
struct Declaration {
    number: i32,
    /// Full name with a leading dot; empty if unset.
    full_name: String,
    /// Scalar type, or full name with a leading dot; empty if unset.
    r#type: String,
    reserved: bool,
    repeated: bool,
}

impl Declaration {
    fn of(message: &DynamicMessage) -> Declaration {
        let get = |name: &str| message.get_field_by_name(name);
        let text = |name: &str| {
            let value = get(name);
            let text = value.as_deref().and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let flag = |name: &str| get(name).and_then(|value| value.as_bool()).unwrap_or(false);
        Declaration {
            number: get("number").and_then(|value| value.as_i32()).unwrap_or(0),
            full_name: text("full_name"),
            r#type: text("type"),
            reserved: flag("reserved"),
            repeated: flag("repeated"),
        }
    }
}

/// Returns the declarations of a range.
fn declarations(options: &Options) -> Vec<Declaration> {
    let list = options.get("declaration").and_then(Value::as_list);
    let messages = list.into_iter().flatten().filter_map(Value::as_message);
    messages.map(Declaration::of).collect()
}

/// Returns the value of `verification`: whether every extension must be declared.
fn verified(options: &Options) -> Option<bool> {
    let number = options.get("verification")?.as_enum_number()?;
    Some(number == 0)
}

impl Check<'_> {
    /// Reports wrong declarations of a message.
    pub(super) fn declarations(&mut self, message: &Message) {
        if self.tree[message.file].text.is_none() {
            return;
        }
        let mut numbers = HashSet::new();
        let ranges = message.extension_ranges.iter();
        for (range, options) in ranges.zip(&message.extension_options) {
            let declared = declarations(options);
            if verified(options) == Some(false) && !declared.is_empty() {
                let why = "a range with declarations cannot be UNVERIFIED";
                self.wrong_declaration(message, why);
            }
            for one in &declared {
                if let Some(why) = wrong(one, *range) {
                    self.wrong_declaration(message, &why);
                }
                if !numbers.insert(one.number) {
                    let why = format!("extension number {} is declared twice", one.number);
                    self.wrong_declaration(message, &why);
                }
            }
        }
    }

    fn wrong_declaration(&mut self, message: &Message, why: &str) {
        let why = format!("{}: {why}", message.name);
        self.report(message.file, &message.source, why, None);
    }

    /// Reports an extension that differs from its declaration, or has none where it must.
    pub(super) fn declared(&mut self, extension: &Extension) {
        let tree = self.tree;
        let extendee = &tree[extension.extendee];
        let number = extension.field.number;
        let ranges = extendee.extension_ranges.iter();
        let mut ranges = ranges.zip(&extendee.extension_options);
        let Some((_, options)) = ranges.find(|(range, _)| range.contains(number)) else {
            return;
        };
        let declared = declarations(options);
        if declared.is_empty() && verified(options) != Some(true) {
            return;
        }
        let why = match declared.iter().find(|one| one.number == number) {
            None => Some(format!(
                "{} does not declare extension number {number}",
                extendee.name
            )),
            Some(one) => difference(tree, extension, one),
        };
        if let Some(why) = why {
            let why = format!("{}: {why}", extension.name);
            self.report(extension.file, &extension.field.source, why, None);
        }
    }
}

/// Returns the error of a declaration on its own.
fn wrong(one: &Declaration, range: NumberRange) -> Option<String> {
    let number = one.number;
    if !range.contains(number) {
        return Some(format!(
            "extension number {number} is declared outside the range {} to {}",
            range.first, range.last
        ));
    }
    let unset = (one.full_name.is_empty(), one.r#type.is_empty());
    match unset {
        (true, true) if one.reserved => return None,
        (true, _) | (_, true) => {
            return Some(format!(
                "the declaration of extension number {number} needs full_name and type"
            ));
        }
        _ => {}
    }
    let is_type_name = Scalar::of_keyword(&one.r#type).is_some() || is_full_name(&one.r#type);
    let wrong = match (is_full_name(&one.full_name), is_type_name) {
        (false, _) => &one.full_name,
        (_, false) => &one.r#type,
        _ => return None,
    };
    Some(format!(
        "malformed name {wrong:?} in a declaration: expected a full name with a leading dot"
    ))
}

fn is_full_name(name: &str) -> bool {
    let parts = name.strip_prefix('.').map(|name| name.split('.'));
    let is_word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    parts.is_some_and(|mut parts| parts.all(is_word))
}

/// Returns the difference between an extension and its declaration.
fn difference(tree: &Tree, extension: &Extension, declared: &Declaration) -> Option<String> {
    let field = &extension.field;
    if declared.reserved {
        return Some(format!(
            "{} reserves extension number {}",
            tree[extension.extendee].name, field.number
        ));
    }
    let own_name = format!(".{}", extension.name);
    if own_name != declared.full_name {
        return Some(format!("the declared name is {}", declared.full_name));
    }
    let own_type = match field.kind {
        Kind::Scalar(scalar) => scalar.keyword().to_owned(),
        Kind::Message(id) | Kind::Group(id) => format!(".{}", tree[id].name),
        Kind::Enum(id) => format!(".{}", tree[id].name),
    };
    if own_type != declared.r#type {
        return Some(format!(
            "the declared type is {}, not {own_type}",
            declared.r#type
        ));
    }
    match (
        declared.repeated,
        field.cardinality == Cardinality::Repeated,
    ) {
        (true, false) => Some("it is declared as repeated".to_owned()),
        (false, true) => Some("it is declared as not repeated".to_owned()),
        _ => None,
    }
}
