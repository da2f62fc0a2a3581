//! Reading of options, and the rules about all options: features and required fields.

use prost_reflect::{Cardinality, DynamicMessage, ReflectMessage as _, Value};
use prost_types::UninterpretedOption;

use super::Builder;
use crate::model::{Options, Syntax};
use crate::parse::features;

/// Field number of `uninterpreted_option` in all options messages.
pub(super) const UNINTERPRETED: i32 = 999;

/// Features of the language, and the elements to which they apply.
const FEATURES: &[(&str, &[&str])] = &[
    ("field_presence", &["File", "Field"]),
    ("enum_type", &["File", "Enum"]),
    ("repeated_field_encoding", &["File", "Field"]),
    ("utf8_validation", &["File", "Field"]),
    ("message_encoding", &["File", "Field"]),
    ("json_format", &["File", "Message", "Enum"]),
];

impl Builder<'_> {
    /// Builds the options of the current element; `tag` is the number of its field `options`.
    pub(super) fn options(
        &mut self,
        tag: i32,
        scope: &str,
        sort: &str,
        options: Option<(&[UninterpretedOption], Vec<u8>)>,
    ) -> Options {
        self.cursor.path.push(tag);
        let kept = self.cursor.draft.options.get(&self.cursor.path);
        let (uninterpreted, standard) = options.unwrap_or_default();
        let encoded = match kept {
            Some(kept) => kept,
            // In a parsed text, all options are uninterpreted.
            None if self.cursor.draft.text.is_some() => &[][..],
            None => &standard,
        };
        let context = self.context(scope);
        let (options, errors) = self.schema.read(context, sort, encoded, uninterpreted);
        let mut docs = Vec::new();
        for (index, option) in (0..).zip(uninterpreted) {
            for of in self
                .cursor
                .sources
                .docs_of_all(&[&self.cursor.path[..], &[UNINTERPRETED, index]].concat())
            {
                let path = self.schema.path(context, sort, option);
                docs.extend(path.first().map(|number| (*number as u32, of)));
            }
        }
        // An option with an error is not set, which would look like a missing field.
        if errors.is_empty() {
            self.check_options(sort, &options, uninterpreted);
        }
        for (index, reason) in errors {
            self.cursor.report(&[UNINTERPRETED, index as i32], reason);
        }
        self.cursor.path.pop();
        if docs.is_empty() {
            options
        } else {
            options.documented(docs)
        }
    }

    /// Checks the options of the current element, whose path ends at the options.
    fn check_options(&mut self, sort: &str, options: &Options, written: &[UninterpretedOption]) {
        let Some(message) = options.message().filter(|_| self.cursor.is_text()) else {
            return;
        };
        let starts_with = |option: &UninterpretedOption, part: usize, name: &str| {
            let part = option.name.get(part);
            part.is_none_or(|part| part.name_part == name)
        };
        if let Some(features) = options.get("features").and_then(Value::as_message) {
            let sort = sort.trim_start_matches("google.protobuf.");
            let sort = sort.trim_end_matches("Options");
            for (feature, why) in wrong_features(self.cursor.draft.syntax, sort, features) {
                let option = written.iter().position(|option| {
                    starts_with(option, 0, "features") && starts_with(option, 1, feature)
                });
                self.cursor
                    .rule(&[UNINTERPRETED, option.unwrap_or(0) as i32], why);
            }
        }
        let mut missing = Vec::new();
        missing_required(message, "", &mut missing);
        for (top, path) in missing {
            let option = written.iter().position(|option| {
                let name = option.name.first();
                name.is_some_and(|part| top.ends_with(part.name_part.trim_start_matches('.')))
            });
            let why = format!("option {path}: required field is missing");
            self.cursor
                .rule(&[UNINTERPRETED, option.unwrap_or(0) as i32], why);
        }
    }
}

/// Returns the features that an element may not set, with the reasons.
fn wrong_features(syntax: Syntax, sort: &str, set: &DynamicMessage) -> Vec<(&'static str, String)> {
    if !matches!(syntax, Syntax::Edition(_)) {
        let why = "features are only valid in editions, not in proto2 and proto3";
        return vec![("", why.to_owned())];
    }
    let mut wrong = Vec::new();
    for (feature, sorts) in FEATURES {
        let Some(value) = features::number(set, feature) else {
            continue;
        };
        if !sorts.contains(&sort) {
            let sorts = sorts.join(", ").to_lowercase();
            let why = format!(
                "feature {feature} does not apply to a {}: expected one of: {sorts}",
                sort.to_lowercase()
            );
            wrong.push((*feature, why));
        } else if value == 0 {
            let why = format!("feature {feature} is unknown: expected another value");
            wrong.push((*feature, why));
        } else if (*feature, sort, value) == ("field_presence", "File", 3) {
            let why = "LEGACY_REQUIRED is not valid for a whole file: expected a field";
            wrong.push((*feature, why.to_owned()));
        }
    }
    wrong
}

/// Collects the required fields that are not set in a message and the messages inside: the name of
/// the outermost field or extension, and the whole path.
fn missing_required(message: &DynamicMessage, at: &str, missing: &mut Vec<(String, String)>) {
    let path = |name: &str| match at {
        "" => name.to_owned(),
        _ => format!("{at}.{name}"),
    };
    let top = |path: &str| {
        path.trim_start_matches('(')
            .split(')')
            .next()
            .map(str::to_owned)
    };
    for field in message.descriptor().fields() {
        if field.cardinality() == Cardinality::Required && !message.has_field(&field) {
            let path = path(field.name());
            missing.push((top(&path).unwrap_or_default(), path));
        }
    }
    let mut inside = |name: String, value: &Value| match value {
        Value::Message(message) => missing_required(message, &path(&name), missing),
        Value::List(list) => {
            for message in list.iter().filter_map(Value::as_message) {
                missing_required(message, &path(&name), missing);
            }
        }
        Value::Map(map) => {
            for message in map.values().filter_map(Value::as_message) {
                missing_required(message, &path(&name), missing);
            }
        }
        _ => {}
    };
    for (field, value) in message.fields() {
        inside(field.name().to_owned(), value);
    }
    for (extension, value) in message.extensions() {
        inside(format!("({})", extension.full_name()), value);
    }
}
