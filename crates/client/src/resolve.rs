//! A target's configuration, followed.

use std::sync::Arc;

use oxds_core::ads::{ClientEvent, WatchError, WatchErrorReason};
use oxds_core::resolve::{Resolver, WatchCommand, XdsConfig};
use oxds_core::resource::ResourceParsers;

use crate::client::{ClientPool, Watches};
use crate::load::LoadReporter;
use crate::target::{Target, TargetError};

/// Follows the configuration of one target. Dropping it ends its watches.
#[derive(Debug)]
pub struct ConfigWatch {
    resolver: Resolver,
    watches: Watches,
    node_id: String,
    /// The client is gone, and this has been said.
    ended: bool,
}

impl ConfigWatch {
    /// Resolves a target with the pool's client for it.
    ///
    /// # Errors
    /// The bootstrap does not know the target's authority.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(pool: &ClientPool, target: &Target) -> Result<Self, TargetError> {
        let listener = target.listener_name(pool.bootstrap())?;
        let client = pool.client(&target.to_string());
        for read_as in ResourceParsers::grpc() {
            client.register(read_as);
        }
        let mut watch = Self {
            resolver: Resolver::new(listener, target.data_plane_authority()),
            watches: client.watches(),
            node_id: pool.bootstrap().node().id.clone(),
            ended: false,
        };
        watch.obey();
        Ok(watch)
    }

    /// Reports the load of the configuration's clusters.
    #[must_use]
    pub fn load_reporter(&self) -> &LoadReporter {
        self.watches.client().load_reporter()
    }

    /// The next configuration, whole, or why there is none; those that were not read in time are left out. When the
    /// runtime that the client was made in is gone, that is the last error: nothing comes after it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Arc<XdsConfig>, WatchError> {
        loop {
            // All that has arrived is one step, so that one response makes one configuration.
            while let Some(event) = self.watches.take() {
                self.take_in(event);
            }
            self.obey();
            if let Some(resolution) = self.resolver.poll_config() {
                return resolution.map_err(|error| self.with_node(error));
            }
            match self.watches.next().await {
                Some(event) => self.take_in(event),
                // Said once: whoever reads on must not spin.
                None if self.ended => std::future::pending().await,
                None => {
                    self.ended = true;
                    let text =
                        format!("the xDS client's runtime is gone [node {:?}]", self.node_id);
                    return Err(WatchError::new(WatchErrorReason::Unreachable, text));
                }
            }
        }
    }

    /// The resolver's own errors do not say for whom; those of resources do already (C-118).
    fn with_node(&self, error: WatchError) -> WatchError {
        match error.reason {
            WatchErrorReason::Unusable => WatchError::new(
                WatchErrorReason::Unusable,
                format!("{error} [node {:?}]", self.node_id),
            ),
            _ => error,
        }
    }

    fn take_in(&mut self, event: ClientEvent) {
        // Ambient errors leave the configuration as it is; the client has logged them.
        if let ClientEvent::Changed {
            resource_type,
            name,
            resource,
        } = event
        {
            self.resolver
                .handle_resource(&resource_type, &name, &resource);
        }
    }

    fn obey(&mut self) {
        while let Some(command) = self.resolver.poll_command() {
            match command {
                WatchCommand::Watch(resource_type, name) => self.watches.add(&resource_type, &name),
                WatchCommand::Unwatch(resource_type, name) => {
                    self.watches.remove(&resource_type, &name)
                }
            }
        }
    }
}
