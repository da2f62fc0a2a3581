//! Telemetry of a client: log events, metrics and channelz.
//!
//! ```text
//!  driver ─► Telemetry ─┬─► tracing events    listed on the crate's front page
//!                       ├─► ResourceMetrics   the metrics of gRFC A78: see `crate::metrics`
//!                       └─► ServerChannel     a channelz channel per server
//! ```

mod channelz;
mod metrics;

use std::fmt;
use std::sync::Arc;

use oxds_core::ads::{
    CacheStatus, Client, ClientEvent, ResponseSummary, ServerId, WatchError, WatchErrorReason,
};
use oxds_net::transport::SocketAddresses;
use oxds_types::ResourceType;

use crate::channelz::Registry;
use channelz::ServerChannel;
pub(crate) use metrics::MetricsTarget;
use metrics::ResourceMetrics;

/// Telemetry of one client. Dropping it ends its gauges.
#[derive(Debug)]
pub(crate) struct Telemetry {
    servers: Vec<ServerTelemetry>,
    metrics: Option<ResourceMetrics>,
    registry: Registry,
}

/// Telemetry of one server.
#[derive(Debug)]
struct ServerTelemetry {
    id: ServerId,
    uri: String,
    /// Whether it answered at the last check; `None` while no resource is requested from it.
    connected: Option<bool>,
    /// Channelz channel of the server, while a resource is requested from it.
    channel: Option<Arc<ServerChannel>>,
}

/// Receivers of a client's telemetry, besides the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observers {
    pub(crate) metrics: Option<MetricsTarget>,
    /// Registry in which its connections appear.
    pub(crate) registry: Registry,
}

impl Observers {
    /// Returns the observers for a source beside the client's own servers.
    pub(crate) fn of_source(&self, uri: &str) -> Self {
        Self {
            metrics: self.metrics.as_ref().map(|metrics| metrics.of_source(uri)),
            registry: self.registry.clone(),
        }
    }
}

impl Telemetry {
    pub(crate) fn new(
        servers: impl IntoIterator<Item = (ServerId, String)>,
        observers: Observers,
    ) -> Self {
        let server = |(id, uri)| ServerTelemetry {
            id,
            uri,
            connected: None,
            channel: None,
        };
        Self {
            servers: servers.into_iter().map(server).collect(),
            metrics: observers.metrics.map(ResourceMetrics::new),
            registry: observers.registry,
        }
    }

    fn server(&self, id: ServerId) -> Option<&ServerTelemetry> {
        self.servers.iter().find(|server| server.id == id)
    }

    fn server_mut(&mut self, id: ServerId) -> Option<&mut ServerTelemetry> {
        self.servers.iter_mut().find(|server| server.id == id)
    }

    fn uri(&self, id: ServerId) -> &str {
        self.server(id).map_or("", |server| &server.uri)
    }

    fn channel(&self, id: ServerId) -> Option<&ServerChannel> {
        self.server(id)?.channel.as_deref()
    }

    /// Records that a connection is being opened.
    pub(crate) fn connecting(&mut self, server: ServerId) {
        let registry = self.registry.clone();
        if let Some(server) = self.server_mut(server) {
            let channel = server.channel.get_or_insert_with(|| {
                let channel = ServerChannel::new(&server.uri);
                registry.add(&channel);
                channel
            });
            channel.connecting();
        }
    }

    /// Records that a stream is open.
    pub(crate) fn opened(&self, server: ServerId, addresses: Option<SocketAddresses>) {
        tracing::debug!(target: "oxds::ads", server = self.uri(server), "stream opened");
        if let (Some(channel), Some(addresses)) = (self.channel(server), addresses) {
            channel.opened(addresses);
        }
    }

    /// Records that no resource is requested from a server any more.
    pub(crate) fn disconnected(&mut self, server: ServerId) {
        if let Some(server) = self.server_mut(server) {
            server.channel = None;
        }
    }

    /// Records that a stream has ended.
    pub(crate) fn closed(&self, server: ServerId, cause: &str) {
        if let Some(channel) = self.channel(server) {
            channel.closed();
        }
        tracing::info!(target: "oxds::ads", server = self.uri(server), cause, "stream closed");
    }

    /// Records that a poll has failed.
    pub(crate) fn poll_failed(&self, server: ServerId, cause: &str) {
        tracing::info!(target: "oxds::ads", server = self.uri(server), cause, "poll failed");
    }

    /// Records a request.
    pub(crate) fn request(&self, server: ServerId, request: &impl fmt::Debug) {
        tracing::trace!(target: "oxds::ads", server = self.uri(server), ?request, "request");
    }

    /// Records a response.
    pub(crate) fn response(&self, server: ServerId, response: &impl fmt::Debug) {
        tracing::trace!(target: "oxds::ads", server = self.uri(server), ?response, "response");
    }

    /// Records the resources of a response, after they were checked.
    pub(crate) fn updates(&self, server: ServerId, updates: Option<&ResponseSummary>) {
        let Some(updates) = updates else { return };
        let (uri, resource_type) = (self.uri(server), updates.resource_type.message());
        let (valid, invalid) = (updates.valid as u64, updates.invalid as u64);
        match &updates.rejection {
            None => tracing::debug!(
                target: "oxds::ads", server = uri, resource_type, valid, "response ACKed"
            ),
            Some(cause) => tracing::warn!(
                target: "oxds::ads", server = uri, resource_type, valid, invalid, cause, "response NACKed"
            ),
        }
        // gRFC A88: it logs a warning for a name with both a resource and an error (C-115).
        for name in &updates.contradictions {
            tracing::warn!(
                target: "oxds::resource", server = uri, resource_type, name = &**name,
                "resource error ignored: the response has the resource, too"
            );
        }
        if let Some(metrics) = &self.metrics {
            metrics.updates(uri, resource_type, valid, invalid);
        }
    }

    /// Logs an event of a resource.
    pub(crate) fn event(&self, event: &ClientEvent, cached: Option<&CacheStatus<'_>>) {
        let held = cached.and_then(|cached| cached.held);
        let (server, version) =
            held.map_or(("", ""), |held| (self.uri(held.server), &*held.version));
        match event {
            ClientEvent::Changed {
                resource_type,
                name,
                resource: Ok(_),
            } => tracing::debug!(
                target: "oxds::resource", server, resource_type = resource_type.message(), name = &**name, version, "resource changed"
            ),
            ClientEvent::Changed {
                resource_type,
                name,
                resource: Err(cause),
            } => log_error(resource_type, name, cause, "resource not available"),
            ClientEvent::Ambient {
                resource_type,
                name,
                error: Some(cause),
            } => log_error(
                resource_type,
                name,
                cause,
                "resource kept, but may be outdated",
            ),
            ClientEvent::Ambient {
                resource_type,
                name,
                error: None,
            } => tracing::info!(
                target: "oxds::resource", server, resource_type = resource_type.message(), name = &**name, version, "resource is current again"
            ),
            // gRFC A53: the client logs a warning when it ignores a deletion.
            ClientEvent::DeletionIgnored {
                resource_type,
                name,
            } => tracing::warn!(
                target: "oxds::resource", server, resource_type = resource_type.message(), name = &**name, "resource deletion ignored"
            ),
            // gRFC A53: it logs at info level when the ignored deletion is over (C-106).
            ClientEvent::DeletionOver {
                resource_type,
                name,
                is_back,
            } => {
                let event = if *is_back {
                    "deleted resource is back"
                } else {
                    "deleted resource is not watched any more"
                };
                tracing::info!(
                    target: "oxds::resource", server, resource_type = resource_type.message(), name = &**name, "{event}"
                );
            }
        }
    }

    /// Records the current state of a resource; `None` if it is not watched any more.
    pub(crate) fn resource(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        cached: Option<&CacheStatus<'_>>,
    ) {
        if let Some(metrics) = &mut self.metrics {
            metrics.resource(resource_type, name, cached);
        }
    }

    /// Removes the resources that are not watched any more.
    pub(crate) fn remove_unwatched(&mut self, machine: &Client) {
        if let Some(metrics) = &mut self.metrics {
            metrics.remove_unwatched(machine);
        }
    }

    /// Records which servers answer now.
    pub(crate) fn servers(&mut self, machine: &Client) {
        for server in &mut self.servers {
            let now = machine.is_connected(server.id);
            let before = std::mem::replace(&mut server.connected, now);
            if before == now {
                continue;
            }
            let uri = &*server.uri;
            match now {
                // gRFC A57, A78: unreachable means that the stream ended before a response, or could not connect.
                Some(false) => {
                    tracing::warn!(target: "oxds::ads", server = uri, "server unreachable");
                }
                Some(true) if before == Some(false) => {
                    tracing::info!(target: "oxds::ads", server = uri, "server reachable again");
                }
                _ => {}
            }
            if let Some(metrics) = &self.metrics {
                metrics.connected(uri, now);
            }
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            for server in &self.servers {
                if server.connected.is_some() {
                    metrics.connected(&server.uri, None);
                }
            }
        }
    }
}

fn log_error(resource_type: &ResourceType, name: &str, cause: &WatchError, event: &'static str) {
    let resource_type = resource_type.message();
    match cause.reason {
        // The event "server unreachable" is logged once for all resources of the server.
        WatchErrorReason::Unreachable => {
            tracing::debug!(target: "oxds::resource", resource_type, name, %cause, "{event}");
        }
        _ => {
            tracing::warn!(target: "oxds::resource", resource_type, name, %cause, "{event}");
        }
    }
}
