//! Errors of security files.

use std::path::PathBuf;

use oxds_types::file::FileError;

/// An invalid certificate, key or rule file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// The file cannot be read, has no certificate or key, or the key does not belong to the certificate.
    #[error(transparent)]
    File(#[from] FileError),
    /// The authorization rules are malformed.
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Rules {
        /// The file with the rules.
        path: PathBuf,
        /// The line, counted from 1.
        line: u32,
        /// The column, counted from 1.
        column: u32,
        /// The explanation, without the place.
        reason: String,
    },
}
