//! Files and texts to resources, and back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::discovery::Any;
use crate::{Error, Kind, Position, Reference, Version};

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
    /// refusing the file.
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
    pub kind: Kind,
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
    /// Where it begins in its file.
    pub position: Option<Position>,
}

/// Reads the resources of a file. `file` only names it in errors.
///
/// A document is one resource (with `@type`), a list of them, or a `DiscoveryResponse`
/// (`resources:`) (S-72). Either all of the file is good, or the errors are returned, of which
/// there is at least one.
pub fn decode(
    _file: &Path,
    _format: Format,
    _bytes: &[u8],
    _options: &Options,
) -> Result<Vec<LoadedResource>, Vec<Error>> {
    Ok(Vec::new())
}

/// Writes resources down, as a file that [`decode`] reads: a `DiscoveryResponse` in text and
/// binary form, a list in JSON, a document each in YAML.
pub fn encode(_resources: &[Any], _format: Format) -> Result<Vec<u8>, Error> {
    Ok(Vec::new())
}
