//! Where a process finds its bootstrap (gRFC A27).

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Bootstrap, BootstrapError, CredentialTypes, Origin, read};

/// Names the bootstrap file.
pub const FILE_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP";
/// Holds the bootstrap itself.
pub const CONFIG_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";

/// What the environment turns on and off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switches {
    /// Whether servers beyond the first of a list count (gRFC A71).
    pub(super) fallback: bool,
    /// Whether names have authorities (gRFC A47).
    pub(super) federation: bool,
    /// Whether an authority may fall back on reachability only (gRFC A95).
    pub(super) endpoint_fallback: bool,
}

/// Reads the bootstrap that the variables name. The first that is set decides, even if it leads nowhere (C-1, C-2).
pub(super) fn from_variables(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Bootstrap, BootstrapError> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let (json, origin) = if let Some(path) = set(FILE_VARIABLE).map(PathBuf::from) {
        let unreadable = |error: std::io::Error| BootstrapError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        };
        let json = std::fs::read_to_string(&path).map_err(unreadable)?;
        (json, Origin::File(path))
    } else if let Some(json) = set(CONFIG_VARIABLE) {
        // What is not UTF-8 becomes a syntax error, with its place, or a character within a string.
        (json.to_string_lossy().into_owned(), Origin::Variable)
    } else {
        return Err(BootstrapError::Missing);
    };
    let types = CredentialTypes::default();
    read::bootstrap(&json, origin, &types, Switches::find(variable))
}

impl Switches {
    /// Booleans are `true` or `false`, whatever the case; anything else keeps the default.
    pub(super) fn find(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let says =
            |name, word| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let is_on = |name| !says(name, "false");
        Self {
            fallback: is_on("GRPC_EXPERIMENTAL_XDS_FALLBACK"),
            federation: is_on("GRPC_EXPERIMENTAL_XDS_FEDERATION"),
            endpoint_fallback: says("GRPC_EXPERIMENTAL_XDS_ENDPOINT_FALLBACK", "true"),
        }
    }
}
