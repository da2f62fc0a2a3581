//! Bootstrap configuration: the control planes of a process, and its node (gRFC A27, A47).
//!
//! ```text
//!  GRPC_XDS_BOOTSTRAP (a file) ───────────┐
//!  GRPC_XDS_BOOTSTRAP_CONFIG (the JSON) ──┼──► Bootstrap ──► ClientPool
//!  Bootstrap::from_json, Builder ─────────┘
//! ```
//!
//! | file | content |
//! |---|---|
//! | `config` | [`Bootstrap`], [`Server`], [`Authority`] and their accessors |
//! | `read`, `field`, `credentials`, `node` | JSON → [`Bootstrap`]; each error has the path of its field |
//! | `write` | [`Bootstrap`] → JSON |
//! | `builder`, `extension` | a [`Bootstrap`] in code |
//! | `environment`, `from_env` | the environment variables, and the bootstrap that they lead to |
//! | `template` | listener names from templates |

mod builder;
mod config;
mod credential_types;
mod credentials;
mod environment;
mod error;
mod extension;
mod field;
mod from_env;
mod node;
mod policy;
mod read;
pub(crate) mod template;
mod write;

pub use builder::Builder;
pub use config::{AllowedGrpcService, Authority, Bootstrap, Server};
pub use credential_types::CredentialTypes;
pub use environment::{CONFIG_VARIABLE, FILE_VARIABLE};
pub use error::{BootstrapError, Origin};
pub use extension::Extension;
pub use policy::{Features, TlsFeatures, TransportPolicy};

use environment::Switches;
use oxds_types::runtime::Snapshot;

impl Bootstrap {
    /// Starts a bootstrap in code whose first server has this URI.
    pub fn builder(server_uri: impl Into<String>) -> Builder {
        Builder::new(vec![server_uri.into()])
    }

    /// Starts a bootstrap in code that has no server: for clients that watch files only, or
    /// [sources](crate::Source) with servers of their own.
    pub fn without_servers() -> Builder {
        Builder::new(Vec::new())
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// [`BootstrapError::Syntax`] with line and column if `json` is not JSON; [`BootstrapError::Field`] with the path
    /// of the field if a value is wrong.
    pub fn from_json(json: &str) -> Result<Self, BootstrapError> {
        let switches = Switches::from_env();
        read::bootstrap(json, Origin::Given, &switches.types(), switches)
    }

    /// Reads the JSON form, with `credentials` as the credential types that it may choose from.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_json_with(
        json: &str,
        credentials: &CredentialTypes,
    ) -> Result<Self, BootstrapError> {
        read::bootstrap(json, Origin::Given, credentials, Switches::from_env())
    }

    /// Reads the JSON form. The features that gRPC guards by `GRPC_EXPERIMENTAL_XDS_…` variables are read from the
    /// runtime, whose keys have the names of the variables, and not from the environment: a runtime has a layer of it
    /// ([`Layer::environment`](oxds_types::runtime::Layer::environment)) where an operator wants that (V-47).
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_json_in(json: &str, runtime: &Snapshot) -> Result<Self, BootstrapError> {
        let switches = Switches::of(runtime);
        read::bootstrap(json, Origin::Given, &switches.types(), switches)
    }

    /// Reads the file that `GRPC_XDS_BOOTSTRAP` names, or else the JSON in `GRPC_XDS_BOOTSTRAP_CONFIG`.
    ///
    /// # Errors
    /// [`BootstrapError::Missing`] if neither variable is set; [`BootstrapError::Unreadable`] if the file cannot be
    /// read (the other variable is then ignored); else as [`from_json`](Self::from_json).
    pub fn from_env() -> Result<Self, BootstrapError> {
        from_env::from_variables(|name| std::env::var_os(name), None)
    }

    /// As [`from_env`](Self::from_env), with `credentials` as the credential types that the bootstrap may choose from.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_env_with(credentials: &CredentialTypes) -> Result<Self, BootstrapError> {
        from_env::from_variables(|name| std::env::var_os(name), Some(credentials))
    }

    /// Returns the JSON form, which gRPC clients in all languages read.
    #[must_use]
    pub fn to_json(&self) -> String {
        write::bootstrap(self)
    }
}

#[cfg(test)]
mod tests;
