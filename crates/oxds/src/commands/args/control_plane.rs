//! Options that select a control plane, and the credentials for it.

use std::path::PathBuf;

use oxds_client::Bootstrap;
use oxds_client::bootstrap::{Builder, Server};

use super::client_security::ClientSecurity;
use crate::commands::bootstrap::check;
use crate::exit::Failure;

/// Options that select a control plane.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ControlPlaneArgs {
    /// Control plane: the address that `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18000", value_parser = host_and_port)]
    pub(crate) server: String,
    /// gRPC bootstrap file: connect to its first server, with its node and credentials
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "ClientSecurity"])]
    bootstrap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) security: ClientSecurity,
}

impl ControlPlaneArgs {
    /// Returns the bootstrap of the file, or one for the server of the options, whose node `set_node`
    /// sets.
    pub(crate) fn bootstrap(
        &self,
        set_node: impl Fn(Builder) -> Builder,
    ) -> Result<Bootstrap, Failure> {
        match &self.bootstrap {
            Some(file) => check::read(file),
            None => {
                let builder = set_node(Bootstrap::builder(&self.server));
                let built = self.security.apply(builder)?.build();
                built.map_err(Failure::usage)
            }
        }
    }

    /// Returns the arguments for another address, with the same credentials.
    ///
    /// # Errors
    /// The address has no port.
    #[cfg(feature = "etcd")]
    pub(crate) fn at(&self, address: &str) -> Result<Self, String> {
        Ok(Self {
            server: host_and_port(address)?,
            ..self.clone()
        })
    }

    /// Returns the server to connect to.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        first_server(&self.bootstrap(|builder| builder)?)
    }
}

/// Checks that an address has a port. gRPC would otherwise assume port 443.
pub(crate) fn host_and_port(text: &str) -> Result<String, String> {
    if text.contains(':') {
        Ok(text.to_owned())
    } else {
        Err("expected a host and a port: 127.0.0.1:18000".to_owned())
    }
}

/// Returns the first server of a bootstrap.
pub(crate) fn first_server(bootstrap: &Bootstrap) -> Result<Server, Failure> {
    let server = bootstrap.servers().first();
    let server = server.ok_or_else(|| {
        Failure::usage("bootstrap without a server: expected at least one in xds_servers")
    })?;
    // An error here is clearer than the server's UNAUTHENTICATED.
    if !server.call_credentials.is_empty() {
        let uri = &server.uri;
        return Err(Failure::usage(format_args!(
            "{uri}: this command does not support call credentials"
        )));
    }
    Ok(server.clone())
}
