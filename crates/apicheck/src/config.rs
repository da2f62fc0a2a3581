//! Files that say how a tree is judged, and what is wrong in one.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ConfigError {
    /// The file, with line and column where they are known.
    pub place: String,
    /// What is wrong.
    pub why: String,
}

impl ConfigError {
    /// `at`: line and column.
    pub(crate) fn new(path: &Path, at: Option<(u64, u64)>, why: impl Into<String>) -> Self {
        let path = path.display();
        let place = match at {
            Some((line, column)) => format!("{path}:{line}:{column}"),
            None => path.to_string(),
        };
        let why = why.into();
        Self { place, why }
    }
}

/// What is made of a file's text; none when there is no file.
///
/// # Errors
/// When it cannot be read, and what `parse` finds.
pub(crate) fn read<T>(
    path: &Path,
    parse: impl FnOnce(&Path, &str) -> Result<T, ConfigError>,
) -> Result<Option<T>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::new(path, None, error.to_string())),
    }
}

/// What YAML says.
///
/// # Errors
/// The first mistake, with its place.
pub(crate) fn from_yaml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location().map(|at| (at.line(), at.column()));
        let why = error.without_snippet().to_string();
        // The place is told in front.
        let why = why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why);
        ConfigError::new(path, at, why)
    })
}
