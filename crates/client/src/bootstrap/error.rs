//! What is wrong with a bootstrap. The operator is to blame.

use std::fmt;
use std::path::PathBuf;

use super::source::{CONFIG_VARIABLE, FILE_VARIABLE};

/// Where a bootstrap came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The file that `GRPC_XDS_BOOTSTRAP` names.
    File(PathBuf),
    /// `GRPC_XDS_BOOTSTRAP_CONFIG`.
    Variable,
    /// The program.
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

/// Why there is no bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Nobody said where it is.
    #[error(
        "no xDS bootstrap: set {FILE_VARIABLE} to the path of a file or {CONFIG_VARIABLE} to its contents, or give \
         one in code"
    )]
    Missing,
    /// The file cannot be read.
    #[error("{}: cannot be read: {reason} (named by {FILE_VARIABLE})", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is no JSON.
    #[error("{origin}:{line}:{column}: {reason}")]
    Syntax {
        /// Where it came from.
        origin: Origin,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// A field has a value that it cannot have.
    #[error("{origin}: {path}: {reason}")]
    Field {
        /// Where it came from.
        origin: Origin,
        /// The field, as in `xds_servers[0].server_uri`.
        path: String,
        /// What is wrong.
        reason: String,
    },
}
