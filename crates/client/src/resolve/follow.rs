//! The loop of all watches of configurations: resources and addresses in, configurations out.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::resolve::WatchCommand;
use oxds_core::resource::{DnsTarget, ParsedResource, ResourceParsers};
use oxds_types::ResourceType;

use crate::dns::{LookedUp, Lookups};
use crate::handle::ClientPool;
use crate::handle::WatchSet;
use crate::update::{RawResource, WatchEvent};

/// State machine that makes configurations of resources.
pub(super) trait Resolve: fmt::Debug {
    /// A configuration.
    type Config;

    fn handle_resource(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    );

    /// Handles the result of a lookup; only machines that ask for lookups get any.
    fn handle_addresses(&mut self, host: &DnsTarget, result: Result<&[SocketAddr], &str>);

    fn poll_command(&mut self) -> Option<WatchCommand>;

    fn poll_config(&mut self) -> Option<Result<Arc<Self::Config>, WatchError>>;
}

/// A state machine with the watches that it has asked for. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Follow<R> {
    resolver: R,
    pub(super) watches: WatchSet,
    pub(super) lookups: Lookups,
    node_id: String,
    /// The client's runtime has stopped, and the error for this was returned.
    ended: bool,
}

impl<R: Resolve> Follow<R> {
    /// Starts to resolve with the pool's client for `target`.
    pub(super) fn new(pool: &ClientPool, target: &str, resolver: R) -> Self {
        let client = pool.client(target);
        for parser in ResourceParsers::grpc_with(pool.extensions()) {
            client.register(parser);
        }
        let mut follow = Self {
            resolver,
            watches: client.watches(),
            lookups: Lookups::new(),
            node_id: pool.bootstrap().node().id.clone(),
            ended: false,
        };
        follow.update_watches();
        follow
    }

    /// Waits for the next configuration; cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Arc<R::Config>, WatchError> {
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
