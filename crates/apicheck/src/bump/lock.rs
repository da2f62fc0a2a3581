//! The lock: versions and hashes beside a tree, for trees that must not be edited, and the hashes
//! of frozen packages.
//!
//! JSON with sorted keys, one value a line: two people who bump two files merge without conflict.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use semver::Version;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Digest;

/// The name of the lock file in the root of a tree.
pub const LOCK_FILE: &str = "oxds-api.lock.json";

/// The form that this program reads and writes.
const FORM: u32 = 1;

/// What a lock file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    form: u32,
    /// By import path.
    #[serde(default)]
    pub files: BTreeMap<String, Locked>,
    /// The hash of each frozen package, by name.
    #[serde(default)]
    pub frozen: BTreeMap<String, Digest>,
}

/// A file at a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// The version.
    #[serde(with = "as_text")]
    pub version: Version,
    /// Its local hash at that version.
    pub hash: Digest,
}

/// Why a lock file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It cannot be read or written.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// It is no lock.
    #[error("{path}:{line}:{column}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// It was written by another version of this program.
    #[error("{path}: form {form} is not known here, only {FORM} is; update oxds")]
    Form {
        /// The file.
        path: PathBuf,
        /// The form it has.
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
    /// Reads the text of a lock file. `path` is for errors.
    ///
    /// # Errors
    /// With line and column when it is malformed, and when its form is unknown.
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

    /// Reads a lock file; none when there is no such file.
    ///
    /// # Errors
    /// When it is there and cannot be used.
    pub fn read(path: &Path) -> Result<Option<Lock>, LockError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Lock::parse(&text, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LockError::io(path, &error)),
        }
    }

    /// Writes a lock file whole: a reader sees the old one or the new one.
    ///
    /// # Errors
    /// When the folder cannot be written to.
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

/// Values that have a text form.
mod as_text {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

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
    fn v21_a_lock_reads_back_and_names_line_and_column() {
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
