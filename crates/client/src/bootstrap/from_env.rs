//! Reads the bootstrap that the environment names (gRFC A27).

use std::ffi::OsString;
use std::path::PathBuf;

use super::config::Bootstrap;
use super::credential_types::CredentialTypes;
use super::environment::{CONFIG_VARIABLE, FILE_VARIABLE, Switches};
use super::error::{BootstrapError, Origin};
use super::read;

/// Reads the bootstrap that the variables name, with these credential types or the default ones.
pub(super) fn from_variables(
    variable: impl Fn(&str) -> Option<OsString>,
    types: Option<&CredentialTypes>,
) -> Result<Bootstrap, BootstrapError> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    // gRFC A27: the first variable that is set decides, even if its file cannot be read (C-1, C-2).
    let (json, origin) = if let Some(path) = set(FILE_VARIABLE).map(PathBuf::from) {
        let unreadable = |error: std::io::Error| BootstrapError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        };
        let json = std::fs::read_to_string(&path).map_err(unreadable)?;
        (json, Origin::File(path))
    } else if let Some(json) = set(CONFIG_VARIABLE) {
        // Bytes that are not UTF-8 become a syntax error with its position, or a replacement character in a string.
        (json.to_string_lossy().into_owned(), Origin::Variable)
    } else {
        return Err(BootstrapError::Missing);
    };
    let switches = Switches::from_variables(&variable);
    let types = types.cloned().unwrap_or_else(|| switches.types());
    read::bootstrap(&json, origin, &types, switches)
}
