//! The lock file: file versions and hashes for trees that must not be edited, and the hashes of
//! frozen packages.
//!
//! The format is JSON with sorted keys and one value per line, so that two independent bumps merge
//! without a conflict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Digest;

/// Name of the lock file in the top folder of a tree.
pub const LOCK_FILE: &str = "oxds-api.lock.json";

/// Version of the file format.
const FORM: u32 = 1;

/// Contents of a lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Lock {
    form: u32,
    /// Version and hash of each file, by import path.
    #[serde(default)]
    pub files: BTreeMap<String, LockedFile>,
    /// Hash of each frozen package, by name.
    #[serde(default)]
    pub frozen: BTreeMap<String, Digest>,
}

/// Version of a file, and its hash at that version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LockedFile {
    /// Version of the file.
    #[serde(with = "as_text")]
    pub version: Version,
    /// Local hash at that version.
    pub hash: Digest,
}

impl LockedFile {
    /// Returns the entry of a file with this version and hash.
    #[must_use]
    pub fn new(version: Version, hash: Digest) -> Self {
        Self { version, hash }
    }
}

/// Error of a lock file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("{path}: {reason}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The file is not a valid lock.
    #[error("{path}:{line}:{column}: {reason}")]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// Description of the error.
        reason: String,
    },
    /// The file was written by another version of oxds.
    #[error("{path}: unknown lock format {form}: expected {FORM}; update oxds")]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Format version of the file.
        form: u32,
    },
}

impl Default for Lock {
    fn default() -> Lock {
        Lock {
            form: FORM,
            files: BTreeMap::new(),
            frozen: BTreeMap::new(),
        }
    }
}

impl Lock {
    /// Parses the text of a lock file. `path` is used in errors.
    ///
    /// # Errors
    /// Fails, with line and column, if the text is malformed or its format is unknown.
    pub fn parse(text: &str, path: &Path) -> Result<Lock, LockError> {
        let lock: Lock = serde_json::from_str(text).map_err(|error| LockError::Malformed {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            reason: error.to_string(),
        })?;
        if lock.form != FORM {
            return Err(LockError::Form {
                path: path.to_owned(),
                form: lock.form,
            });
        }
        Ok(lock)
    }

    /// Reads a lock file. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be used.
    pub fn read(path: &Path) -> Result<Option<Lock>, LockError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Lock::parse(&text, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LockError::io(path, &error)),
        }
    }

    /// Replaces the lock file atomically: a reader sees the old or the new contents.
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let text = self
            .to_text()
            .map_err(|error| LockError::io(path, &error.into()))?;
        let beside = path.with_extension("json.new");
        std::fs::write(&beside, text)
            .and_then(|()| std::fs::rename(&beside, path))
            .map_err(|error| LockError::io(path, &error))
    }

    fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl LockError {
    fn io(path: &Path, error: &std::io::Error) -> LockError {
        LockError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_text::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        as_text::deserialize(deserializer)
    }
}

/// Serialisation of values with a text form.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Lock, LockError};

    #[test]
    fn v21_lock_round_trips_and_errors_name_line_and_column() {
        let text = r#"{
  "form": 1,
  "files": {
    "a/v1/a.proto": {
      "version": "1.2.0",
      "hash": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
    }
  },
  "frozen": {}
}
"#;
        let lock = Lock::parse(text, Path::new("l")).unwrap();
        assert_eq!(lock.to_text().unwrap(), text);
        let bad = text.replace("1.2.0", "1.2");
        match Lock::parse(&bad, Path::new("l")) {
            Err(LockError::Malformed { line: 5, .. }) => {}
            other => panic!("{other:?}"),
        }
        let newer = text.replace("\"form\": 1", "\"form\": 2");
        assert!(matches!(
            Lock::parse(&newer, Path::new("l")),
            Err(LockError::Form { form: 2, .. })
        ));
    }
}
