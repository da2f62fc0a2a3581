//! Reading of configuration files, ledgers and baselines, and their errors.

use std::io::ErrorKind;
use std::path::Path;

use oxds_settings::{Position, SettingsError};

/// Error in a configuration file, a ledger or a baseline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
#[non_exhaustive]
pub struct ConfigError {
    /// File, with line and column if known.
    pub place: String,
    /// Description of the error, with the expected value.
    pub why: String,
}

impl ConfigError {
    /// Converts an error of a YAML file.
    pub(crate) fn of_settings(path: &Path, error: &SettingsError) -> Self {
        Self {
            place: error.place(path),
            why: error.to_string(),
        }
    }

    /// Returns an error about the value at this position of a file.
    pub(crate) fn at(path: &Path, position: Position, why: String) -> Self {
        Self {
            place: format!("{}:{position}", path.display()),
            why,
        }
    }
}

/// Reads a file as text. Returns `None` if it does not exist. A pipe or device is an error, because
/// reading it could block.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let wrong = |why: String| ConfigError {
        place: path.display().to_string(),
        why,
    };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(wrong("not a regular file".to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let text = std::fs::read_to_string(path);
    text.map(Some).map_err(|error| wrong(error.to_string()))
}
