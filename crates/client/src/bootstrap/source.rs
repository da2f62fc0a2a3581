//! Where a process finds its bootstrap (gRFC A27).

use std::path::PathBuf;

use super::{Bootstrap, BootstrapError, CredentialTypes, Origin, read};

/// Names the bootstrap file.
pub const FILE_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP";
/// Holds the bootstrap itself.
pub const CONFIG_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";
/// Turns fallback between servers off when it says `false` (gRFC A71; on unless told).
const FALLBACK_VARIABLE: &str = "GRPC_EXPERIMENTAL_XDS_FALLBACK";

/// Reads the bootstrap that the variables name. The first that is set decides, even if it leads nowhere (C-1, C-2).
pub(super) fn from_variables(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Bootstrap, BootstrapError> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let fallback = fallback_is_on(&variable);
    let types = CredentialTypes::default();
    if let Some(path) = set(FILE_VARIABLE).map(PathBuf::from) {
        let json = std::fs::read_to_string(&path).map_err(|error| BootstrapError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        return read::bootstrap(&json, Origin::File(path), &types, fallback);
    }
    match set(CONFIG_VARIABLE) {
        Some(json) => read::bootstrap(&json, Origin::Variable, &types, fallback),
        None => Err(BootstrapError::Missing),
    }
}

/// Booleans are `true` or `false`, whatever the case; anything else keeps the default.
pub(super) fn fallback_is_on(variable: impl Fn(&str) -> Option<String>) -> bool {
    !variable(FALLBACK_VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("false"))
}
