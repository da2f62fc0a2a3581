//! Files and texts to resources, and back.
//!
//! ```text
//!            yaml ─┐                        ┌─ validate (rules)
//!                  ├─► document ─► tree ────┤                    ┌─► resource
//!            json ─┘   (shapes)  (messages) ├─ current (v2 to v3)  │
//!                                           └─ canonical (bytes) ┤
//!                                                                ├─► report: resources,
//!   text, binary ────► whole ─► inspect, validate ───────────────┘    or errors with places
//!   a program's message ─┘
//! ```
//! JSON and YAML are one reader over serde: it goes straight from the parser's events to messages,
//! notes what is wrong on the way (`walk`), and knows the field path of everything. A place in the
//! text is looked up only when there is something to say (`locate`).
//!
//! | limit | why |
//! |---|---|
//! | [`Options::max_bytes`] | a file is read into memory |
//! | messages 100 deep, YAML 200, JSON 128 | the stack; and clients decode no deeper |
//! | a million nodes out of aliases | bombs |
//! | 100 findings per document, of 400 characters | logs |

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::discovery::Any;
use crate::error::{self, Reason};
use crate::{Error, Position, Reference, ResourceType, Version};

mod buffer;
pub(crate) mod canonical;
mod current;
mod document;
mod encode;
mod envelope;
mod inspect;
mod json;
mod locate;
mod message;
mod place;
mod report;
mod resource;
mod scalar;
mod tree;
mod walk;
mod whole;
mod yaml;

pub use encode::{EncodeError, encode};
pub use envelope::{
    RequestError, ResponseError, request_from_json, request_to_json, response_from_json,
    response_to_json,
};
pub use message::{InvalidMessage, check};
use report::{Locating, Report};
use resource::Draft;
use tree::Context;
use walk::Walk;

/// How resources are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML, one or more documents.
    Yaml,
    /// JSON in the proto3 mapping.
    Json,
    /// Protobuf text format.
    Text,
    /// Protobuf.
    Binary,
}

impl Format {
    /// By the file's extension; `None` for files that hold no resources (S-72).
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            "pb_text" | "textproto" => Some(Format::Text),
            "pb" => Some(Format::Binary),
            _ => None,
        }
    }
}

/// How strictly files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Pass fields that the descriptors do not know (`--allow-unknown-fields`) instead of
    /// refusing the file. From text they are left out; bodies in binary form keep them. Text
    /// format has no way to pass over them: there they are errors still.
    pub allow_unknown_fields: bool,
    /// Files above this size are refused unread.
    pub max_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allow_unknown_fields: false,
            max_bytes: 256 << 20,
        }
    }
}

/// A resource read from a file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedResource {
    /// What it is.
    pub resource_type: ResourceType,
    /// Its name, in canonical form.
    pub name: Arc<str>,
    /// Type URL (v3) and canonical bytes.
    pub any: Any,
    /// Hash of the canonical bytes.
    pub version: Version,
    /// Time to live, when the file wraps it in a `Resource` that has one.
    pub ttl: Option<Duration>,
    /// The resources it names.
    pub references: Vec<Reference>,
    /// Findings that do not keep it from being served.
    pub warnings: Vec<Error>,
    /// Where it begins in its file, where that is easily told, as in JSON and usual YAML.
    pub position: Option<Position>,
}

/// Reads the resources of a file. `file` only names it in errors.
///
/// A document is one resource (with `@type`), a list of them, or a `DiscoveryResponse`
/// (`resources:`) (S-72). Either all of the file is good, or the errors are returned, of which
/// there is at least one.
pub fn decode(
    file: &Path,
    format: Format,
    bytes: &[u8],
    options: &Options,
) -> Result<Vec<LoadedResource>, Vec<Error>> {
    let mut report = Report::new(Some(file));
    if bytes.len() > options.max_bytes {
        let reason = format!(
            "{} bytes; at most {} are read",
            bytes.len(),
            options.max_bytes
        );
        return Err(vec![report.error(Reason::TooLarge(reason), None)]);
    }
    if format == Format::Binary {
        let walk = Walk::default();
        let read = whole::read_binary(
            bytes,
            Context {
                walk: &walk,
                options,
            },
        );
        report.document("", 0, Locating::No, walk, read);
        return report.finish();
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let reason = Reason::Syntax("not UTF-8".to_owned());
            return Err(vec![report.error(reason, Some(error::end_of(&valid)))]);
        }
    };
    with_enough_stack(|| {
        let mut document =
            |line: usize, text: &str, read: fn(&str, Context<'_>) -> Read, locating| {
                let walk = Walk::default();
                let read = read(
                    text,
                    Context {
                        walk: &walk,
                        options,
                    },
                );
                report.document(text, line, locating, walk, read);
            };
        match format {
            Format::Yaml => {
                for (line, text) in yaml::documents(text) {
                    document(line, text, yaml::read, Locating::ByPath);
                }
            }
            Format::Json => document(0, text, json::read, Locating::ByPath),
            Format::Text | Format::Binary => document(0, text, whole::read_text, Locating::No),
        }
    });
    report.finish()
}

/// Reading nests on the stack. To the limits on depth it takes 0.5 MB in optimised builds, which
/// every thread has, and six times as much in others, which threads of tests and pools lack.
fn with_enough_stack(read: impl FnOnce() + Send) {
    const DEBUG_STACK: usize = 16 << 20;
    if !cfg!(debug_assertions) {
        return read();
    }
    let mut read = Some(read);
    std::thread::scope(|scope| {
        let read = &mut read;
        let builder = std::thread::Builder::new().stack_size(DEBUG_STACK);
        let thread = builder.spawn_scoped(scope, || read.take().map(|read| read()));
        if let Ok(Err(panic)) = thread.map(std::thread::ScopedJoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    });
    // No thread to be had: then on this stack, which is enough for all but the deepest.
    if let Some(read) = read {
        read();
    }
}

/// What reading a document gives: resources, or why it ended, and where.
type Read = Result<Vec<Draft>, (Reason, Option<Position>)>;

#[cfg(test)]
mod tests;
