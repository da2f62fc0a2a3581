//! What the environment says of how a bootstrap is read.

use std::ffi::OsString;

use crate::credentials::CredentialTypes;

/// Parts of a bootstrap that are read, or are not. Booleans are `true` or `false`, whatever the case; anything else keeps
/// the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switches {
    /// Servers beyond the first of a list count (gRFC A71).
    pub(super) fallback: bool,
    /// Names have authorities (gRFC A47).
    pub(super) federation: bool,
    /// `fallback_on_reachability_only` (gRFC A95).
    pub(super) endpoint_fallback: bool,
    /// `allowed_grpc_services` (gRFC A102), which two filters need.
    pub(super) side_services: bool,
    /// Of what backends say of themselves, load reports have what a cluster lists (gRFC A85); else, every named metric
    /// (A64).
    pub(super) listed_metrics: bool,
    /// `call_creds` (gRFC A97), of the types that are there unless told.
    call_credentials: bool,
}

impl Switches {
    pub(super) fn from_env() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let says = |name: &str, word: &str| {
            let name = format!("GRPC_EXPERIMENTAL_XDS_{name}");
            variable(&name).is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        Self {
            fallback: !says("FALLBACK", "false"),
            federation: !says("FEDERATION", "false"),
            endpoint_fallback: says("ENDPOINT_FALLBACK", "true"),
            side_services: says("EXT_PROC_ON_CLIENT", "true")
                || says("EXT_AUTHZ_ON_CLIENT", "true"),
            listed_metrics: !says("ORCA_LRS_PROPAGATION", "false"),
            call_credentials: says("BOOTSTRAP_CALL_CREDS", "true"),
        }
    }

    /// The types of credentials that are there unless told.
    pub(super) fn types(self) -> CredentialTypes {
        let types = CredentialTypes::default();
        #[cfg(feature = "tls")]
        if self.call_credentials {
            return types.with_jwt_token_file();
        }
        types
    }
}
