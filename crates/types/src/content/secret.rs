//! Values that must not be shown: inline keys and passwords, tokens, headers that carry them, and fields that the API
//! marks.
//!
//! The descriptors decide first ([`Secrecy`]). What they do not cover is hidden by names ([`hide_secrets`]): a `Struct`
//! of an extension, messages of API v2, inline data of any message, and headers that carry credentials.

use serde_json::Value;

use super::node::{Content, Entry, Hidden};
use crate::schema::{Field, Message};

/// Words in the names of fields, of keys and of headers whose values are secrets. Names are compared without case and
/// punctuation.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "privatekey",
    "credential",
    "pkcs12",
    "jsonkey",
    "authorization",
    "apikey",
    "accesskey",
];
/// Word in the names of headers, and of keys of maps, whose values are secrets. Fields of messages about cookies are
/// public.
const COOKIE: &str = "cookie";
/// Fields whose inline data is public. All other inline data may be a key.
const PUBLIC_DATA: [&str; 6] = [
    "body",
    "text_format_source",
    "trusted_ca",
    "certificate_chain",
    "inline_code",
    "local_reply_config",
];
/// Fields of a matcher that have the value of a header.
const MATCHED_VALUES: [&str; 8] = [
    "string_match",
    "exact_match",
    "prefix_match",
    "suffix_match",
    "contains_match",
    "safe_regex_match",
    "invert_contains_match",
    "exact",
];
/// Messages of SDS: all of their content is secret, but for the name.
const SECRETS: [&str; 2] = [
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "envoy.api.v2.auth.Secret",
];
/// Messages whose names of files and of variables are public, though the data may be secret.
const DATA_SOURCES: [&str; 2] = [
    "envoy.config.core.v3.DataSource",
    "envoy.api.v2.core.DataSource",
];

/// Secrecy of a value by the descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// The value may be shown.
    Public,
    /// Part of a field that the API marks (`udpa.annotations.sensitive`): the place of the data may be shown.
    Marked,
    /// Part of a `Secret`.
    Secret,
}

impl Secrecy {
    /// Returns the secrecy of a field of a message that has this one.
    pub(super) fn of_field(self, message: &Message, field: &Field) -> Self {
        let is_place = !field.name.starts_with("inline_");
        if self == Self::Secret || SECRETS.contains(&message.full_name()) && field.name != "name" {
            Self::Secret
        } else if is_place && DATA_SOURCES.contains(&message.full_name()) {
            Self::Public
        } else if field.is_sensitive {
            Self::Marked
        } else {
            self
        }
    }
}

/// Hides all scalars of a value.
pub(super) fn hide(content: &mut Content) {
    match content {
        Content::Scalar(Value::Null) | Content::Hidden(_) => {}
        Content::Scalar(value) => *content = Content::Hidden(Hidden::secret(value)),
        Content::List(items) => items.iter_mut().for_each(hide),
        Content::Message(entries) | Content::Map(entries) => {
            entries.iter_mut().for_each(|entry| hide(&mut entry.value));
        }
    }
}

/// Hides the secrets of a value that the field `name` has.
pub(super) fn hide_secrets(content: &mut Content, name: &str) {
    let is_map = matches!(content, Content::Map(_));
    match content {
        Content::List(items) => items.iter_mut().for_each(|item| hide_secrets(item, name)),
        Content::Message(entries) | Content::Map(entries) => {
            let sets_secret = is_secret_header(entries, "key");
            let matches_secret = is_secret_header(entries, "name");
            for Entry { name: field, value } in entries {
                let is_inline = matches!(&**field, "inline_string" | "inline_bytes");
                let is_value = matches!(&**field, "value" | "raw_value");
                let is_matched = MATCHED_VALUES.contains(&&**field);
                if is_inline && !PUBLIC_DATA.contains(&name)
                    || sets_secret && is_value
                    || matches_secret && is_matched
                {
                    hide(value);
                } else if is_map && is_secret_key(field) {
                    hide_untyped(value, field);
                } else {
                    if has_secret_word(&normalized(field)) {
                        hide_texts(value);
                    }
                    hide_secrets(value, field);
                }
            }
        }
        Content::Scalar(_) | Content::Hidden(_) => {}
    }
}

/// Hides a text, and the texts of a list. Numbers and messages of a field with descriptors are not hidden.
fn hide_texts(content: &mut Content) {
    match content {
        Content::Scalar(Value::String(_)) => hide(content),
        Content::List(items) => items.iter_mut().for_each(hide_texts),
        _ => {}
    }
}

/// Hides all values that have no descriptors. A message in a map, such as a filter's configuration under the filter's
/// name, has.
fn hide_untyped(content: &mut Content, name: &str) {
    match content {
        Content::Message(_) => hide_secrets(content, name),
        Content::List(items) => items.iter_mut().for_each(|item| hide_untyped(item, name)),
        Content::Map(entries) => {
            let values = entries.iter_mut().map(|entry| &mut entry.value);
            values.for_each(|value| hide_untyped(value, name));
        }
        Content::Scalar(_) | Content::Hidden(_) => hide(content),
    }
}

/// Returns whether an object is about a header with a secret: its name is the text of this field.
fn is_secret_header(entries: &[Entry], field: &str) -> bool {
    let mut names = entries.iter().filter(|entry| entry.name == field);
    let header = names.find_map(|entry| entry.value.as_text());
    header.is_some_and(is_secret_key)
}

/// Returns whether the value of a header, or of a key of a map, is a secret.
fn is_secret_key(key: &str) -> bool {
    let key = normalized(key);
    has_secret_word(&key) || key.contains(COOKIE)
}

fn has_secret_word(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns a name as words are looked up in it: `x-api-key`, `api_key` and `apiKey` have the word `apikey`.
fn normalized(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}
