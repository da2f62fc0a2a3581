//! Watch of a target's whole configuration.

use std::sync::Arc;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::resolve::{Resolver, WatchCommand, XdsConfig};
use oxds_core::resource::ResourceParsers;

use crate::dns::{LookedUp, Lookups};
use crate::load::LoadReporter;
use crate::pool::ClientPool;
use crate::target::{Target, TargetError};
use crate::watch::{RawResource, WatchEvent, WatchSet};

/// Watch of the configuration of one target: LDS, RDS, CDS and EDS resources as one [`XdsConfig`] (gRFC A74). Dropping it
/// ends its watches.
#[derive(Debug)]
pub struct ConfigWatch {
    resolver: Resolver,
    watches: WatchSet,
    lookups: Lookups,
    node_id: String,
    /// The client's runtime has stopped, and the error for this was returned.
    ended: bool,
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
        let client = pool.client(&target.to_string());
        for parser in ResourceParsers::grpc_with(pool.extensions()) {
            client.register(parser);
        }
        let mut watch = Self {
            resolver: Resolver::new(listener, target.data_plane_authority()),
            watches: client.watches(),
            lookups: Lookups::new(),
            node_id: pool.bootstrap().node().id.clone(),
            ended: false,
        };
        watch.update_watches();
        Ok(watch)
    }

    /// Returns the load reporter for the clusters of the configuration.
    #[must_use]
    pub fn load_reporter(&self) -> &LoadReporter {
        self.watches.load_reporter()
    }

    /// Waits for the next complete configuration. Configurations that were not read in time are skipped.
    ///
    /// # Errors
    /// The reason why there is no configuration; a later call may return one. When the runtime of the client has stopped, this
    /// returns one last error, and further calls never complete.
    ///
    /// # Cancel safety
    /// Dropping the future loses no configuration.
    pub async fn next(&mut self) -> Result<Arc<XdsConfig>, WatchError> {
        loop {
            // All queued updates are applied first, so that one response leads to one configuration.
            while let Some(event) = self.watches.take() {
                self.handle_event(event);
            }
            self.update_watches();
            // gRFC A74: only complete configurations are returned, never one with missing resources.
            if let Some(resolution) = self.resolver.poll_config() {
                return resolution.map_err(|error| self.with_node(error));
            }
            let next = tokio::select! {
                event = self.watches.next() => event,
                found = self.lookups.next() => {
                    self.handle_lookup(&found);
                    continue;
                }
            };
            match next {
                Some(event) => self.handle_event(event),
                // The error is returned once, so that a caller in a loop does not spin.
                None if self.ended => std::future::pending().await,
                None => {
                    self.ended = true;
                    let text = format!(
                        "the xDS client's runtime has stopped [node {:?}]",
                        self.node_id
                    );
                    return Err(WatchError::new(WatchErrorReason::Unreachable, text));
                }
            }
        }
    }

    /// Adds the node id to an error of the resolver. Errors of resources contain it already (C-118).
    fn with_node(&self, error: WatchError) -> WatchError {
        match error.reason {
            WatchErrorReason::Unusable => WatchError::new(
                WatchErrorReason::Unusable,
                format!("{error} [node {:?}]", self.node_id),
            ),
            _ => error,
        }
    }

    fn handle_event(&mut self, event: WatchEvent) {
        // gRFC A88: ambient errors do not change the configuration. The client has logged them.
        if let WatchEvent::Changed {
            resource_type,
            name,
            resource,
        } = event
        {
            let resource = resource.map(RawResource::into_resource);
            self.resolver
                .handle_resource(&resource_type, &name, &resource);
        }
    }

    fn handle_lookup(&mut self, found: &LookedUp) {
        let result = found.result.as_deref().map_err(String::as_str);
        if let Err(error) = result {
            tracing::debug!(target: "oxds::client", host = %found.host, error, "DNS lookup failed");
        }
        self.resolver.handle_addresses(&found.host, result);
    }

    /// Starts and ends the watches that the resolver asks for.
    fn update_watches(&mut self) {
        while let Some(command) = self.resolver.poll_command() {
            match command {
                WatchCommand::Watch(resource_type, name) => self.watches.add(&resource_type, &name),
                WatchCommand::Unwatch(resource_type, name) => {
                    self.watches.remove(&resource_type, &name);
                }
                WatchCommand::Resolve(host) => self.lookups.watch(host),
                WatchCommand::Forget(host) => self.lookups.forget(&host),
            }
        }
    }
}
