//! Layers on disk: a YAML or JSON file, or a folder in the layout of Envoy's disk layer.
//!
//! ```text
//!   state before ──► read ──► state after ── equal ──► layer, or the error in a file
//!        ▲                        └─ differs, at most 10 times
//!        └────────────────────────────┘
//! ```
//! Stamps of all files are compared before and after a read. So a link that is turned over, or a file that is replaced,
//! never leads to a mixture of old and new values.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use envoy_types::pb::google::protobuf::{Struct, Value as ProtoValue, value::Kind};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::layer::{Layer, LayerError, MAX_BYTES, MAX_DEPTH, MAX_KEYS, MAX_VALUE, Source, join};
use super::value::Value;
use crate::Position;
use crate::file::{self, Stamp};

/// Reads of a folder that changes during each of them, until that is an error.
const TRIES: usize = 10;
/// Bytes of the file of one key, comments included.
const MAX_KEY_FILE: usize = 1 << 20;
/// Files and folders of a layer. Links can form circles.
const MAX_ENTRIES: usize = 2 * MAX_KEYS;

/// A layer on disk.
///
/// A folder has a file per key: nested folders become dotted keys, lines that begin with `#` are comments, and hidden
/// names are skipped. To replace a folder as a whole, let its path be a symbolic link and turn it over. A file is a
/// YAML or JSON mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    path: PathBuf,
    optional: bool,
}

/// The state of a layer on disk: real path and stamps. Equal states have equal content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskState {
    /// Path without symbolic links.
    root: PathBuf,
    /// Real stamps of files and folders below the root, by path and key. The root itself has the empty key.
    entries: BTreeMap<String, (PathBuf, Stamp, bool)>,
}

/// A layer that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskError {
    /// Path of the file or folder with the error.
    pub path: PathBuf,
    /// Position in the file, if known.
    pub position: Option<Position>,
    /// Reason, with the expected form.
    pub reason: String,
}

impl DiskError {
    pub(super) fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            position: None,
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for DiskError {}

impl Disk {
    /// Returns the layer at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            optional: false,
        }
    }

    /// Makes a missing folder an empty layer instead of an error, as Envoy does for the folder of a service cluster.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path without symbolic links; `None` while it does not exist. A link that is turned over leads to
    /// another one.
    #[must_use]
    pub fn real_path(&self) -> Option<PathBuf> {
        self.path.canonicalize().ok()
    }

    /// Returns the current state without reading the content.
    ///
    /// # Errors
    /// The path does not exist or cannot be read; the folder has too many files or levels.
    pub fn state(&self) -> Result<DiskState, DiskError> {
        let root = match self.path.canonicalize() {
            Ok(root) => root,
            Err(error) if self.optional && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(DiskState {
                    root: self.path.clone(),
                    entries: BTreeMap::new(),
                });
            }
            Err(error) => return Err(DiskError::new(&self.path, error)),
        };
        let mut state = DiskState {
            entries: BTreeMap::new(),
            root: root.clone(),
        };
        state.add(&root, "", 0)?;
        Ok(state)
    }

    /// Reads the layer, and returns the state that it was read in.
    ///
    /// # Errors
    /// A file or folder cannot be read, a value is invalid, or a limit is exceeded.
    pub fn read(&self, name: &str) -> Result<(Layer, DiskState), DiskError> {
        for _ in 0..TRIES {
            // A link may be turned over at any time, and the old folder deleted: then a read fails that is repeated.
            let before = self.state();
            let layer = match &before {
                Ok(state) => self.read_state(name, state),
                Err(error) => Err(error.clone()),
            };
            if self.state() == before {
                return Ok((layer?, before?));
            }
        }
        let reason = format!("changed during each of {TRIES} reads: expected a pause");
        Err(DiskError::new(&self.path, reason))
    }

    fn read_state(&self, name: &str, state: &DiskState) -> Result<Layer, DiskError> {
        let mut layer = Layer::new(name, Source::Disk(self.path.clone()));
        for (key, (path, _, is_folder)) in &state.entries {
            if key.is_empty() && !is_folder {
                return read_file(layer, &self.path);
            }
            if *is_folder {
                continue;
            }
            // The path that the operator knows, and not the one behind links.
            let known = |reason: String| {
                let below = path.strip_prefix(&state.root).unwrap_or(path);
                DiskError::new(&self.path.join(below), reason)
            };
            let bytes = file::read(path, MAX_KEY_FILE).map_err(|error| known(error.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|_| known("not UTF-8".to_owned()))?;
            let value = Value::from_text(&without_comments(&text));
            layer
                .add(key.trim_start_matches('/').to_owned(), value)
                .map_err(|error| known(error.to_string()))?;
        }
        Ok(layer)
    }
}

impl DiskState {
    /// Returns the path without symbolic links; `None` for an optional layer that does not exist.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        (!self.entries.is_empty()).then_some(&*self.root)
    }

    /// Returns the folders in which a change of a file is a change of the layer, each once.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let entries = self.entries.iter();
        entries.filter_map(|(key, (path, _, is_folder))| {
            if *is_folder {
                Some(&**path)
            } else if key.is_empty() {
                // The layer is a file, which is replaced in its folder.
                path.parent()
            } else {
                None
            }
        })
    }

    /// Adds a file or folder. The key of a file has a slash before it if another path has the same key.
    fn add(&mut self, path: &Path, key: &str, depth: usize) -> Result<(), DiskError> {
        if self.entries.len() > MAX_ENTRIES {
            let reason = format!(
                "more than {MAX_ENTRIES} files and folders: expected at most {MAX_KEYS} keys"
            );
            return Err(DiskError::new(&self.root, reason));
        }
        if depth > MAX_DEPTH {
            let reason = format!("more than {MAX_DEPTH} levels of folders: expected fewer");
            return Err(DiskError::new(path, reason));
        }
        let unreadable = |error: std::io::Error| DiskError::new(path, error);
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        let mut free = key.to_owned();
        while self.entries.contains_key(&free) {
            free.insert(0, '/');
        }
        let entry = (path.to_owned(), Stamp::from(&metadata), metadata.is_dir());
        self.entries.insert(free, entry);
        if !metadata.is_dir() {
            return Ok(());
        }
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str() else {
                return Err(DiskError::new(&path.join(&name), "name is not UTF-8"));
            };
            // Mounted volumes keep their versions in hidden folders, and editors their copies.
            if !name.starts_with('.') {
                self.add(&path.join(name), &join(key, name), depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Removes lines that begin with `#`, and space at the end.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n").trim_end().to_owned()
}

fn read_file(layer: Layer, path: &Path) -> Result<Layer, DiskError> {
    let bytes = file::read(path, MAX_BYTES).map_err(|error| DiskError::new(path, error))?;
    let values: Values = oxds_settings::read(&bytes).map_err(|error| DiskError {
        path: path.to_owned(),
        position: error.position,
        reason: error.reason,
    })?;
    let layer = layer.with_struct(&values.0);
    layer.map_err(|error: LayerError| DiskError::new(path, error))
}

/// The values of a layer in YAML. Lists and nulls are errors with their position.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Values(pub(super) Struct);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of keys to values")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Values, A::Error> {
                structure(map).map(Values)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

fn structure<'de, A: MapAccess<'de>>(mut map: A) -> Result<Struct, A::Error> {
    let mut values = Struct::default();
    while let Some(key) = map.next_key::<String>()? {
        let value = map.next_value::<OneValue>()?;
        if values.fields.len() == MAX_KEYS {
            return Err(A::Error::custom(LayerError::ManyKeys));
        }
        if values.fields.contains_key(&key) {
            return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
        }
        values.fields.insert(key, value.0);
    }
    Ok(values)
}

struct OneValue(ProtoValue);

impl<'de> Deserialize<'de> for OneValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;

        impl<'de> Visitor<'de> for One {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean, a number, a string or a fraction")
            }

            fn visit_bool<E>(self, bool: bool) -> Result<Kind, E> {
                Ok(Kind::BoolValue(bool))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Kind, E> {
                Ok(Kind::NumberValue(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Kind, E> {
                Ok(Kind::NumberValue(number as f64))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Kind, E> {
                Ok(Kind::NumberValue(number))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Kind, E> {
                if text.len() > MAX_VALUE {
                    let bytes = text.len();
                    return Err(E::custom(format_args!(
                        "value of {bytes} bytes: expected at most {MAX_VALUE} bytes"
                    )));
                }
                Ok(Kind::StringValue(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Kind, A::Error> {
                structure(map).map(Kind::StructValue)
            }
        }

        let kind = deserializer.deserialize_any(One)?;
        Ok(Self(ProtoValue { kind: Some(kind) }))
    }
}
