//! Errors of a bootstrap, which its operator must fix.

use std::fmt;
use std::path::PathBuf;

use super::environment::{CONFIG_VARIABLE, FILE_VARIABLE};

/// Origin of a bootstrap, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The file that `GRPC_XDS_BOOTSTRAP` names.
    File(PathBuf),
    /// The variable `GRPC_XDS_BOOTSTRAP_CONFIG`.
    Variable,
    /// The program itself.
    Given,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable => f.write_str(CONFIG_VARIABLE),
            Self::Given => f.write_str("bootstrap"),
        }
    }
}

/// Reason why a bootstrap could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Neither environment variable is set.
    #[error(
        "no xDS bootstrap: set {FILE_VARIABLE} to the path of a file or {CONFIG_VARIABLE} to its contents, or give \
         one in code"
    )]
    Missing,
    /// The bootstrap file cannot be read.
    #[error("{}: cannot be read: {reason} (named by {FILE_VARIABLE})", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: String,
    },
    /// The bootstrap is not valid JSON.
    #[error("{origin}:{line}:{column}: {reason}")]
    Syntax {
        /// Origin of the bootstrap.
        origin: Origin,
        /// Line of the error, counted from 1.
        line: usize,
        /// Column of the error, counted from 1.
        column: usize,
        /// Error of the JSON parser.
        reason: String,
    },
    /// A field has an invalid value.
    #[error("{origin}: {path}: {reason}")]
    Field {
        /// Origin of the bootstrap.
        origin: Origin,
        /// Path of the field, such as `xds_servers[0].server_uri`.
        path: String,
        /// Rule that the value breaks.
        reason: String,
    },
}
