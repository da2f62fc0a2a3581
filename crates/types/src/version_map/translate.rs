//! Converts a whole message, or reports every field that cannot be converted.

use thiserror::Error;

use super::names::{successor, v2_name};
use super::rewrite::{Incompatibility, rewrite};
use crate::ApiVersion;
use crate::clip::clip;
use crate::path::FieldPath;
use crate::schema::{self, Message};

/// A field that the other API version cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{cause}", path, if path.is_empty() { "" } else { ": " })]
pub struct NotRepresentable {
    /// Path to the field; empty for the message itself. An `Any` adds no step.
    pub path: String,
    /// The construct that the other version lacks.
    pub cause: Incompatibility,
}

/// Reported fields per resource: the items of a long list can repeat one incompatibility.
const MAX_REPORTED: usize = 20;

/// Converts an encoded v3 message to v2. `message` is its full name in v3.
///
/// # Errors
/// The fields that v2 cannot express: at least one, at most twenty.
pub fn to_v2(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let to = ApiVersion::V2;
    let from = schema::find_in(ApiVersion::V3, message);
    let into = v2_name(message).and_then(|name| schema::find_in(to, name));
    translate(message, from.zip(into), to, value)
}

/// Converts an encoded v2 message, or a v3 message with v2 content, to v3. `message` is its full name in either version.
///
/// # Errors
/// The fields that v3 cannot express: at least one, at most twenty.
pub fn to_v3(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let from = schema::find(message);
    let pair = from.and_then(|from| Some((from, successor(from)?)));
    translate(message, pair, ApiVersion::V3, value)
}

fn translate(
    message: &str,
    pair: Option<(&'static Message, &'static Message)>,
    to: ApiVersion,
    value: &[u8],
) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let mut found = Vec::new();
    let mut note = |path: &FieldPath, cause| {
        if found.len() < MAX_REPORTED {
            let path = clip(path.to_string());
            found.push(NotRepresentable { path, cause });
        }
    };
    let path = &mut FieldPath::default();
    let Some((from, into)) = pair else {
        let message = message.to_owned();
        note(path, Incompatibility::NoMessage { message, to });
        return Err(found);
    };
    let translated = rewrite(from, into, value, path, &mut note);
    if found.is_empty() {
        Ok(translated)
    } else {
        Err(found)
    }
}
