//! Where a process finds its bootstrap (gRFC A27).

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Bootstrap, BootstrapError, CredentialTypes, Origin, Switches, read};

/// Names the bootstrap file.
pub const FILE_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP";
/// Holds the bootstrap itself.
pub const CONFIG_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";

/// Reads the bootstrap that the variables name, with these types of credentials or those that are there unless told.
/// The first variable that is set decides, even if it leads nowhere (C-1, C-2).
pub(super) fn from_variables(
    variable: impl Fn(&str) -> Option<OsString>,
    types: Option<&CredentialTypes>,
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
    let switches = Switches::from_variables(&variable);
    let types = types.cloned().unwrap_or_else(|| switches.types());
    read::bootstrap(&json, origin, &types, switches)
}
