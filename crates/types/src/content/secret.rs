//! Values that must not be shown: inline keys and passwords, tokens, headers that carry them, and fields that the API marks.

use serde_json::Value;

use super::node::{Content, Entry, Hidden};
use crate::schema::Message;

/// Words in the names of fields whose texts are secrets.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "secret",
    "token",
    "private_key",
    "credential",
    "pkcs12",
    "json_key",
    "authorization",
];
/// Fields whose inline data is public. All other inline data may be a key.
const PUBLIC_DATA: [&str; 6] = [
    "body",
    "text_format_source",
    "trusted_ca",
    "certificate_chain",
    "inline_code",
    "local_reply_config",
];
/// Words in the names of headers whose values are secrets.
const SECRET_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "api-key",
    "apikey",
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

/// Returns whether all of the content of a message is secret, but for its name.
pub(super) fn is_secret_message(schema: &Message) -> bool {
    SECRETS.contains(&schema.full_name())
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
    match content {
        Content::List(items) => items.iter_mut().for_each(|item| hide_secrets(item, name)),
        Content::Message(entries) | Content::Map(entries) => {
            let sets_secret = is_secret_header(entries, "key");
            let matches_secret = is_secret_header(entries, "name");
            for Entry { name: field, value } in entries {
                let is_inline = matches!(&**field, "inline_string" | "inline_bytes");
                let is_value = matches!(&**field, "value" | "raw_value");
                let is_matched = MATCHED_VALUES.contains(&&**field);
                let is_secret = SECRET_WORDS.iter().any(|word| field.contains(word));
                let is_hidden = is_inline && !PUBLIC_DATA.contains(&name)
                    || sets_secret && is_value
                    || matches_secret && is_matched
                    || is_secret && value.as_text().is_some();
                match is_hidden {
                    true => hide(value),
                    false => hide_secrets(value, field),
                }
            }
        }
        Content::Scalar(_) | Content::Hidden(_) => {}
    }
}

/// Returns whether an object is about a header with a secret: its name is the text of this field.
fn is_secret_header(entries: &[Entry], field: &str) -> bool {
    let mut names = entries.iter().filter(|entry| entry.name == field);
    let header = names.find_map(|entry| entry.value.as_text());
    header.is_some_and(|header| {
        let header = header.to_ascii_lowercase();
        SECRET_HEADERS.iter().any(|word| header.contains(word))
    })
}
