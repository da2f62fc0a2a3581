//! Watches of whole configurations: of a target, and of a server.

mod follow;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::ads::WatchError;
use oxds_core::resolve::{Resolution, Resolver, WatchCommand, XdsConfig};
use oxds_core::resource::{DnsTarget, ParsedResource};
use oxds_types::ResourceType;

use crate::handle::ClientPool;
use crate::load::LoadReporter;
use crate::target::{Target, TargetError};
use follow::{Follow, Resolve};

pub use server::ServerConfigWatch;

/// Watch of the configuration of one target: LDS, RDS, CDS and EDS resources as one [`XdsConfig`] (gRFC A74). Dropping
/// it ends its watches.
#[derive(Debug)]
pub struct ConfigWatch(Follow<Resolver>);

impl Resolve for Resolver {
    type Config = XdsConfig;

    fn handle_resource(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    ) {
        self.handle_resource(resource_type, name, resource);
    }

    fn handle_addresses(&mut self, host: &DnsTarget, result: Result<&[SocketAddr], &str>) {
        self.handle_addresses(host, result);
    }

    fn poll_command(&mut self) -> Option<WatchCommand> {
        self.poll_command()
    }

    fn poll_config(&mut self) -> Option<Resolution> {
        self.poll_config()
    }
}

impl ConfigWatch {
    /// Starts to resolve a target with the pool's client for it.
    ///
    /// # Errors
    /// [`TargetError::UnknownAuthority`] if the bootstrap does not have the target's authority.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn new(pool: &ClientPool, target: &Target) -> Result<Self, TargetError> {
        let listener = target.listener_name(pool.bootstrap())?;
        let resolver = Resolver::new(listener, target.data_plane_authority());
        Ok(Self(Follow::new(pool, &target.to_string(), resolver)))
    }

    /// Returns the load reporter for the clusters of the configuration.
    #[must_use]
    pub fn load_reporter(&self) -> &LoadReporter {
        self.0.watches.load_reporter()
    }

    /// Looks the host of a `LOGICAL_DNS` cluster up sooner than it otherwise would, because a connection to it has
    /// failed or has ended (gRFC A37). It is still not looked up more often than every 5 s.
    pub fn look_up_again(&self, host: &DnsTarget) {
        self.0.lookups.ask_again(host);
    }

    /// Waits for the next complete configuration. Configurations that were not read in time are skipped.
    ///
    /// # Errors
    /// The reason for the missing configuration; a later call may return one. When the runtime of the client has
    /// stopped, this returns one last error, and further calls never complete.
    ///
    /// # Cancel safety
    /// Dropping the future loses no configuration.
    pub async fn next(&mut self) -> Result<Arc<XdsConfig>, WatchError> {
        self.0.next().await
    }
}
