//! Watch of the configuration of a server's listening address.

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::ads::WatchError;
use oxds_core::resolve::{ServerConfig, ServerResolution, ServerResolver, WatchCommand};
use oxds_core::resource::{DnsTarget, ParsedResource};
use oxds_types::ResourceType;

use super::follow::{Follow, Resolve};
use crate::bootstrap::BootstrapError;
use crate::handle::ClientPool;

/// Name under which a pool has the client of its servers. Metrics have it as `grpc.target` (gRFC A71, A78).
const TARGET: &str = "#server";

/// Watch of the configuration of a server: the listener of an address, and its routes (gRFC A36). All servers of a pool
/// share one client. Dropping it ends its watches.
#[derive(Debug)]
pub struct ServerConfigWatch {
    follow: Follow<ServerResolver>,
    listener_name: Arc<str>,
}

impl Resolve for ServerResolver {
    type Config = ServerConfig;

    fn handle_resource(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    ) {
        self.handle_resource(resource_type, name, resource);
    }

    fn handle_addresses(&mut self, _: &DnsTarget, _: Result<&[SocketAddr], &str>) {}

    fn poll_command(&mut self) -> Option<WatchCommand> {
        self.poll_command()
    }

    fn poll_config(&mut self) -> Option<ServerResolution> {
        self.poll_config()
    }
}

impl ServerConfigWatch {
    /// Starts to watch the configuration of a server that listens on `listening`, under the name that the template of
    /// the bootstrap gives it.
    ///
    /// # Errors
    /// [`BootstrapError`] if the bootstrap has no `server_listener_resource_name_template`.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn new(pool: &ClientPool, listening: SocketAddr) -> Result<Self, BootstrapError> {
        let name: Arc<str> = pool.bootstrap().server_listener_name(listening)?.into();
        let resolver = ServerResolver::new(Arc::clone(&name), listening);
        Ok(Self {
            follow: Follow::new(pool, TARGET, resolver),
            listener_name: name,
        })
    }

    /// Returns the name of the listener resource.
    #[must_use]
    pub fn listener_name(&self) -> &Arc<str> {
        &self.listener_name
    }

    /// Waits for the next complete configuration. Configurations that were not read in time are skipped.
    ///
    /// # Errors
    /// The reason why the server must not serve; a later call may return a configuration. When the runtime of the
    /// client has stopped, this returns one last error, and further calls never complete.
    ///
    /// # Cancel safety
    /// Dropping the future loses no configuration.
    pub async fn next(&mut self) -> Result<Arc<ServerConfig>, WatchError> {
        self.follow.next().await
    }
}
