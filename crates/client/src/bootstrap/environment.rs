//! Environment variables that select a bootstrap or change how it is read.

use std::ffi::OsString;

use oxds_types::runtime::{Layer, Snapshot, Value};

use super::credential_types::CredentialTypes;
use super::policy::TlsFeatures;

/// Environment variable with the path of the bootstrap file (gRFC A27).
pub const FILE_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP";
/// Environment variable with the bootstrap itself, as JSON (gRFC A27).
pub const CONFIG_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";

/// Parts of a bootstrap that the environment turns on or off.
///
/// A variable is `true` or `false`, in any case; any other value keeps the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switches {
    /// Servers after the first of a list are used (gRFC A71).
    pub(super) fallback: bool,
    /// Names have authorities (gRFC A47).
    pub(super) federation: bool,
    /// `fallback_on_reachability_only` is read (gRFC A95).
    pub(super) endpoint_fallback: bool,
    /// `allowed_grpc_services` is read (gRFC A102), which two HTTP filters need.
    pub(super) allowed_grpc_services: bool,
    /// Load reports contain the ORCA metrics that a cluster lists (gRFC A85); otherwise every named metric (gRFC A64).
    pub(super) listed_metrics: bool,
    /// `call_creds` of the default types are read (gRFC A97).
    call_credentials: bool,
    /// Fields of TLS contexts that are read (gRFC A82, A101).
    pub(super) tls: TlsFeatures,
}

/// Beginning of the names of the variables, which are also the keys of a runtime.
const PREFIX: &str = "GRPC_EXPERIMENTAL_XDS_";
/// Ends of the names.
const NAMES: [&str; 9] = [
    "FALLBACK",
    "FEDERATION",
    "ENDPOINT_FALLBACK",
    "EXT_PROC_ON_CLIENT",
    "EXT_AUTHZ_ON_CLIENT",
    "ORCA_LRS_PROPAGATION",
    "BOOTSTRAP_CALL_CREDS",
    "SYSTEM_ROOT_CERTS",
    "SNI",
];

impl Switches {
    pub(super) fn from_env() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let names = NAMES.iter().map(|name| format!("{PREFIX}{name}"));
        let set = names.filter_map(|name| {
            let value = variable(&name)?;
            Some((OsString::from(name), value))
        });
        Self::of(&Snapshot::from_layers(vec![Layer::environment(set)]))
    }

    /// Reads the keys of a runtime, which have the names of the variables.
    pub(super) fn of(runtime: &Snapshot) -> Self {
        let equals = |name: &str, expected: bool| {
            let value = runtime.get(&format!("{PREFIX}{name}"));
            value == Some(&Value::Bool(expected))
        };
        Self {
            // On by default in gRPC today: these variables only turn a feature off.
            fallback: !equals("FALLBACK", false),
            federation: !equals("FEDERATION", false),
            // Experimental in gRPC: off unless turned on.
            endpoint_fallback: equals("ENDPOINT_FALLBACK", true),
            allowed_grpc_services: equals("EXT_PROC_ON_CLIENT", true)
                || equals("EXT_AUTHZ_ON_CLIENT", true),
            listed_metrics: !equals("ORCA_LRS_PROPAGATION", false),
            call_credentials: equals("BOOTSTRAP_CALL_CREDS", true),
            tls: TlsFeatures {
                system_roots: equals("SYSTEM_ROOT_CERTS", true),
                sni: equals("SNI", true),
            },
        }
    }

    /// Returns the default credential types.
    pub(super) fn types(self) -> CredentialTypes {
        let types = CredentialTypes::default();
        #[cfg(feature = "tls")]
        if self.call_credentials {
            return types.with_jwt_token_file();
        }
        types
    }
}
