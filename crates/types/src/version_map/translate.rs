//! Translates a whole message, or reports every field that the other version lacks.

use super::names::translator;
use crate::ApiVersion;
use crate::clip::clip;
use crate::path::{FieldPath, Step};
use crate::schema;
use crate::translate::{Dropped, Incompatibility, Trail, TrailStep};

/// A field that the other API version cannot express.
pub type NotRepresentable = Dropped;

/// Reported fields per resource: the items of a long list can repeat one incompatibility.
const MAX_REPORTED: usize = 20;

/// Translates an encoded v3 message to v2. `message` is its full name in v3.
///
/// # Errors
/// The fields that v2 cannot express: at least one, at most twenty.
pub fn to_v2(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    translate(ApiVersion::V2, message, value)
}

/// Translates an encoded v2 message, or a v3 message with v2 content, to v3. `message` is its full name in either
/// version.
///
/// # Errors
/// The fields that v3 cannot express: at least one, at most twenty.
pub fn to_v3(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    translate(ApiVersion::V3, message, value)
}

fn translate(
    to: ApiVersion,
    message: &str,
    value: &[u8],
) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let mut found = Vec::new();
    let mut note = |trail: &Trail<'_>, cause| {
        if found.len() < MAX_REPORTED {
            let path = clip(trail.to_string());
            found.push(NotRepresentable { path, cause });
        }
    };
    let translated = if schema::find(message).is_some() {
        translator(to).rewrite(message, value, &mut note).0
    } else {
        let message = message.to_owned();
        let to = to.into();
        note(&Trail::ROOT, Incompatibility::NoMessage { message, to });
        None
    };
    match translated {
        Some((_, value)) if found.is_empty() => Ok(value),
        _ => Err(found),
    }
}

/// Translates an encoded message at `path` to v3. Fields that v3 lacks are noted and omitted, so the result is then
/// useful only to find more.
pub(crate) fn rewrite(
    message: &str,
    value: &[u8],
    path: &FieldPath,
    note: &mut dyn FnMut(&FieldPath, Incompatibility),
) -> Vec<u8> {
    let mut note = |trail: &Trail<'_>, cause| {
        let mut path = path.clone();
        trail.for_each(&mut |step| {
            path.push(match step {
                TrailStep::Field(name) => Step::Named(name.to_owned()),
                TrailStep::Unknown(number) => Step::Unknown(number.to_string()),
                TrailStep::Index(index) => Step::Index(index),
                TrailStep::Key(key) => Step::Key(key.to_owned()),
                TrailStep::Root => return,
            });
        });
        note(&path, cause);
    };
    let (rewritten, _) = translator(ApiVersion::V3).rewrite(message, value, &mut note);
    rewritten.map(|(_, value)| value).unwrap_or_default()
}

/// Returns whether an encoded message may have content that v3 lacks: it names a message of Envoy that is not one of
/// v3.
///
/// The content of an `Any`, at every depth, is preceded or followed by its type URL, which is not compressed.
pub(crate) fn may_be_old(value: &[u8]) -> bool {
    const ROOT: &[u8] = b"envoy.";
    let mut rest = value;
    while let Some(at) = find(rest, ROOT) {
        rest = &rest[at..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
        let end = rest.iter().position(|byte| !is_name(byte));
        let name = &rest[..end.unwrap_or(rest.len())];
        rest = &rest[name.len()..];
        // Names of filters (`envoy.filters.http.router`) are in lower case.
        let is_message = name
            .windows(2)
            .any(|pair| pair[0] == b'.' && pair[1].is_ascii_uppercase());
        let name = std::str::from_utf8(name).unwrap_or_default();
        if is_message && schema::find_in(ApiVersion::V3, name).is_none() {
            return true;
        }
    }
    false
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].iter().position(|byte| *byte == pattern[0])?;
        if text[at..].starts_with(pattern) {
            return Some(at);
        }
        from = at + 1;
    }
}
