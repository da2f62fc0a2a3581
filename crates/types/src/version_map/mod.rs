//! One resource in two versions of the API: v3, in which oxds keeps everything, and v2, in which
//! old clients ask and old files are written (S-62, S-63, S-64).
//!
//! ```text
//!   v2 file ──to_v3──►  resource (v3)  ──to_v2──►  v2 client
//!                            │
//!                            └───────────────────►  v3 client
//! ```
//! A field keeps its number (one exception is known), so both forms have nearly the same bytes. What differs are
//! the type URLs, of a resource and of each `Any` in it, and which fields there are at all. So the
//! bytes are rewritten as they are read, along the descriptors of both versions, and nothing is
//! translated that cannot be said in full: an [`Incompatibility`] names the field instead.
//!
//! Which message became which is the API's own record (`udpa.annotations.versioning`), see
//! [`v2_name`]. The descriptors of v2 are read when a v2 name is met for the first time.
//!
//! # What is more than a name
//! `ConfigSource.resource_api_version` and `ApiConfigSource.transport_api_version` say in which
//! version a client goes on to ask. What v2 leaves to its default means v2 there; in v3 it would
//! mean v2 still, which no client of today does. [`to_v3`] therefore says v3. [`to_v2`] leaves
//! them as they are: those who understand v3 are free to ask in it.

use thiserror::Error;

use crate::path::Path;
use crate::schema::{self, Message};
use crate::{ApiVersion, error};

mod names;
mod rewrite;

pub use names::{v2_name, v3_name};
pub(crate) use rewrite::rewrite;

/// Why something cannot be said in the other version, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{cause}", path, if path.is_empty() { "" } else { ": " })]
pub struct NotRepresentable {
    /// Path to the field; empty for the message itself. An `Any` adds no step.
    pub path: String,
    /// The construct that the other version lacks.
    pub cause: Incompatibility,
}

/// What one version can say and the other cannot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The message has no field of this number, or one that means something else.
    #[error("{message} has no such field")]
    NoField {
        /// Full name of the message, in the version that lacks the field.
        message: String,
    },
    /// The field takes one value there, and here are more.
    #[error("takes one value only in {message}")]
    NotAList {
        /// Full name of the message, in the version in which the field is no list.
        message: String,
    },
    /// The enum has no value of this number.
    #[error("{enumeration} has no value {number}")]
    NoEnumValue {
        /// Full name of the enum, in the version that lacks the value.
        enumeration: String,
        /// The value.
        number: i32,
    },
    /// No message took its place, or it took the place of none.
    #[error("{message} does not exist in {}", match to { ApiVersion::V2 => "v2", ApiVersion::V3 => "v3" })]
    NoMessage {
        /// Full name of the message, in the version that has it.
        message: String,
        /// The version that has not.
        to: ApiVersion,
    },
    /// The bytes are not such a message.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// At most so many obstacles are told for one resource; a list can repeat one without end.
const MAX_OBSTACLES: usize = 20;

/// The v2 form of an encoded v3 message. `message` is its full name, in v3.
///
/// The errors are all that is in the way, the first twenty of them; there is at least one.
pub fn to_v2(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let to = ApiVersion::V2;
    let from = schema::find_in(ApiVersion::V3, message);
    let into = v2_name(message).and_then(|name| schema::find_in(to, name));
    translate(message, from.zip(into), to, value)
}

/// The v3 form of an encoded message, v2 or with something of v2 in it. `message` is its full
/// name, in either version.
pub fn to_v3(message: &str, value: &[u8]) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let from = schema::find(message);
    let pair = from.and_then(|from| Some((from, successor(from)?)));
    translate(message, pair, ApiVersion::V3, value)
}

/// What a message is in v3: itself, or what took its place.
pub(crate) fn successor(schema: &'static Message) -> Option<&'static Message> {
    match schema.api {
        ApiVersion::V3 => Some(schema),
        ApiVersion::V2 => schema::find_in(ApiVersion::V3, current_name(schema)),
    }
}

/// Full name of what a message is in v3; its own where it has no successor.
pub(crate) fn current_name(schema: &Message) -> &str {
    match schema.api {
        ApiVersion::V3 => schema.full_name(),
        ApiVersion::V2 => v3_name(schema.full_name()).unwrap_or(schema.full_name()),
    }
}

fn translate(
    message: &str,
    pair: Option<(&'static Message, &'static Message)>,
    to: ApiVersion,
    value: &[u8],
) -> Result<Vec<u8>, Vec<NotRepresentable>> {
    let mut found = Vec::new();
    let mut note = |path: &Path, cause| {
        if found.len() < MAX_OBSTACLES {
            let path = error::clip(path.to_string());
            found.push(NotRepresentable { path, cause });
        }
    };
    let path = &mut Path::default();
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

#[cfg(test)]
mod tests;
