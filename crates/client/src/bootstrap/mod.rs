//! The bootstrap: which control planes there are, and who asks them (gRFC A27, A47).
//!
//! ```text
//!  GRPC_XDS_BOOTSTRAP (a file) ───────────┐
//!  GRPC_XDS_BOOTSTRAP_CONFIG (the JSON) ──┼──► Bootstrap ──► ClientPool
//!  Bootstrap::from_json, Builder ─────────┘
//! ```

mod builder;
mod credentials;
mod error;
mod json;
mod node;
mod policy;
mod read;
mod source;
mod switches;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use oxds_core::ads::NameSyntax;
use oxds_types::discovery::Node;

pub use builder::Builder;
pub use error::{BootstrapError, Origin};
pub use policy::TransportPolicy;
pub use source::{CONFIG_VARIABLE, FILE_VARIABLE};

use crate::credentials::{
    CallCredentials, CertificateFiles, ChannelCredentials, Configured, CredentialTypes,
};
use crate::target;
use crate::transport::ServerUri;
use switches::Switches;

/// Which control planes there are, and who asks them. There is at least one server, but in a bootstrap made
/// [without](Bootstrap::without_servers).
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    pub(crate) servers: Vec<Server>,
    pub(crate) authorities: BTreeMap<String, Authority>,
    pub(crate) node: Node,
    pub(crate) listener_template: String,
    pub(crate) server_listener_template: Option<String>,
    /// What names are, by the environment that it was read in (C-48).
    pub(crate) names: NameSyntax,
    /// Load reports have the metrics that clusters list, by the same environment (C-143).
    pub(crate) listed_metrics: bool,
    pub(crate) certificate_providers: BTreeMap<String, CertificateFiles>,
    pub(crate) allowed_grpc_services: BTreeMap<String, SideService>,
}

/// One control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// Where it is, as written: a gRPC target.
    pub uri: String,
    /// Where it is, as read.
    pub address: ServerUri,
    /// How to connect to it.
    pub credentials: Configured<dyn ChannelCredentials>,
    /// What every call to it shows (gRFC A97). Over plaintext it shows nothing.
    pub call_credentials: Vec<Configured<dyn CallCredentials>>,
    /// What it is known to do.
    pub features: Features,
    /// In which version of the API it is asked.
    pub transport: TransportPolicy,
}

/// `server_features` of one server; they are never shared between servers (C-20). Unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features {
    /// It speaks xDS v3 (gRFC A30).
    pub xds_v3: bool,
    /// What it deletes stays in use (gRFC A53).
    pub ignore_resource_deletion: bool,
    /// Its words on security are to be trusted (gRFC A81).
    pub trusted_xds_server: bool,
    /// Data errors drop what is held (gRFC A88).
    pub fail_on_data_errors: bool,
    /// Its silence means that it is slow, not that a resource is missing (gRFC A88).
    pub resource_timer_is_transient_error: bool,
}

/// What is special about the names of one authority (gRFC A47).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authority {
    /// Its own servers; none means the top-level ones.
    pub servers: Vec<Server>,
    /// How a channel's listener is named.
    pub listener_template: Option<String>,
    /// Whether a server that cannot be reached is reason enough to ask the next, with everything held (gRFC A95).
    pub fallback_on_reachability_only: bool,
}

/// How to connect to a service that a resource may name, even if its control plane is not trusted (gRFC A102).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SideService {
    /// How to connect to it.
    pub credentials: Configured<dyn ChannelCredentials>,
    /// What every call to it shows.
    pub call_credentials: Vec<Configured<dyn CallCredentials>>,
}

impl Bootstrap {
    /// A bootstrap in code.
    pub fn builder(server_uri: impl Into<String>) -> Builder {
        Builder::new(vec![server_uri.into()])
    }

    /// A bootstrap in code that names no server: for who watches files, or [sources](crate::Source) with servers of
    /// their own.
    pub fn without_servers() -> Builder {
        Builder::new(Vec::new())
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// Bad JSON with line and column; a wrong value with the path of its field.
    pub fn from_json(json: &str) -> Result<Self, BootstrapError> {
        let switches = Switches::from_env();
        read::bootstrap(json, Origin::Given, &switches.types(), switches)
    }

    /// Reads the JSON form; `credentials` are the types that may be chosen.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_json_with(
        json: &str,
        credentials: &CredentialTypes,
    ) -> Result<Self, BootstrapError> {
        read::bootstrap(json, Origin::Given, credentials, Switches::from_env())
    }

    /// Reads what `GRPC_XDS_BOOTSTRAP` (a file) or else `GRPC_XDS_BOOTSTRAP_CONFIG` (the JSON itself) says.
    ///
    /// # Errors
    /// Neither is set; the file cannot be read (the other variable is then not looked at); or as
    /// [`from_json`](Self::from_json).
    pub fn from_env() -> Result<Self, BootstrapError> {
        source::from_variables(|name| std::env::var_os(name), None)
    }

    /// The same; `credentials` are the types that may be chosen.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_env_with(credentials: &CredentialTypes) -> Result<Self, BootstrapError> {
        source::from_variables(|name| std::env::var_os(name), Some(credentials))
    }

    /// The control planes, the most wanted first.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The authorities that names and targets may have.
    #[must_use]
    pub fn authorities(&self) -> &BTreeMap<String, Authority> {
        &self.authorities
    }

    /// Who asks: what the bootstrap says, and what this library says of itself.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// How the listener of a gRPC server is named, if it was said (gRFC A36).
    #[must_use]
    pub fn server_listener_template(&self) -> Option<&str> {
        self.server_listener_template.as_deref()
    }

    /// The certificates that resources may refer to, by the name they do so (gRFC A29). Providers of other kinds than
    /// `file_watcher` are not among them (C-26).
    #[must_use]
    pub fn certificate_providers(&self) -> &BTreeMap<String, CertificateFiles> {
        &self.certificate_providers
    }

    /// The services that resources may name, by target URI, whoever they come from (gRFC A102). Read only if
    /// `GRPC_EXPERIMENTAL_XDS_EXT_PROC_ON_CLIENT` or `GRPC_EXPERIMENTAL_XDS_EXT_AUTHZ_ON_CLIENT` says `true`.
    #[must_use]
    pub fn allowed_grpc_services(&self) -> &BTreeMap<String, SideService> {
        &self.allowed_grpc_services
    }

    /// The listener of a gRPC server that listens here. Who makes no server needs no template, so that a bootstrap without
    /// one is good until then (gRFC A36).
    ///
    /// # Errors
    /// `server_listener_resource_name_template` is not set.
    pub fn server_listener_name(&self, listening: SocketAddr) -> Result<String, BootstrapError> {
        let Some(template) = &self.server_listener_template else {
            return Err(BootstrapError::Field {
                origin: Origin::Given,
                path: "server_listener_resource_name_template".to_owned(),
                reason: "must be set for an xDS server".to_owned(),
            });
        };
        Ok(target::fill(template, &listening.to_string()))
    }

    /// The JSON form, as a gRPC client in any language reads it.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::bootstrap(self)
    }
}

#[cfg(test)]
mod tests;
