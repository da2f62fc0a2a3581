//! The channel's one task: turns configurations and connectivity into the routing table and pickers
//! that the request path reads.
//!
//! ```text
//!   configuration ──────┐
//!   subchannel changed ─┼──▶ ChannelDriver ──▶ RoutingTable, Pickers (swapped in) ──▶ wake waiting RPCs
//!   endpoint requested ─┤         │
//!   cluster released ───┤         │
//!   timers ─────────────┘         │
//!                                 └──▶ subchannels: connect, release
//! ```
//!
//! A cluster that the routes no longer name stays until the last RPC that chose it has a response or ends (gRFC A31).
//!
//! The driver reads all pending changes before it builds a picker, so a thousand endpoints that connect
//! at the same time do not cost a thousand pickers.

mod cluster;
mod leaf;
mod level;
mod list_diff;
mod members;
mod sessions;
#[cfg(test)]
mod tests;
mod weights;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use oxds_client::load::LoadReporter;
use oxds_core::resolve::{Resolution, XdsConfig};
use oxds_core::resource::DnsTarget;
use oxds_core::time::Instant;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tonic::Code;

use self::cluster::ClusterDriver;
use self::leaf::LeafContext;
use self::members::Members;
use crate::attempt::status;
use crate::connection_request::{ConnectionRequest, ConnectionRequester};
use crate::epoch::Epoch;
use crate::picker::ReleasedSender;
use crate::pool::Pool;
use crate::routing::{ChannelShared, Routing, RoutingTable};
use crate::security::ChannelSecurity;
use crate::subchannel::StateChanged;

/// Source of a channel's configurations: the xDS client, or a script in tests.
pub(crate) trait XdsConfigSource: Send + 'static {
    /// Returns the next configuration, or the error that replaces it. Pends while nothing changes.
    /// Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Resolution> + Send;

    /// Looks the host of a `LOGICAL_DNS` cluster up again soon, because a connection to it has failed or has ended.
    fn look_up_again(&mut self, host: &DnsTarget);

    /// Returns the reporter for the load of its clusters.
    fn load_reporter(&self) -> Option<LoadReporter> {
        None
    }
}

/// State of the channel's task.
pub(crate) struct ChannelDriver {
    shared: Arc<ChannelShared>,
    pool: Pool,
    security: ChannelSecurity,
    loads: Option<LoadReporter>,
    epoch: Epoch,
    /// By the token that their subchannels' changes carry.
    clusters: HashMap<u64, ClusterDriver>,
    by_name: HashMap<Arc<str>, u64>,
    next_token: u64,
    change_sender: UnboundedSender<StateChanged>,
    changes: UnboundedReceiver<StateChanged>,
    request_sender: UnboundedSender<ConnectionRequest>,
    /// Idle endpoints that RPCs wait for.
    requests: UnboundedReceiver<ConnectionRequest>,
    released_sender: UnboundedSender<u64>,
    /// Tokens of clusters that neither the routes nor RPCs use any more.
    released: UnboundedReceiver<u64>,
}

impl ChannelDriver {
    pub(crate) fn new(
        shared: Arc<ChannelShared>,
        pool: Pool,
        security: ChannelSecurity,
        loads: Option<LoadReporter>,
    ) -> Self {
        let (change_sender, changes) = mpsc::unbounded_channel();
        let (request_sender, requests) = mpsc::unbounded_channel();
        let (released_sender, released) = mpsc::unbounded_channel();
        Self {
            shared,
            pool,
            security,
            loads,
            epoch: Epoch::start(),
            clusters: HashMap::new(),
            by_name: HashMap::new(),
            next_token: 0,
            change_sender,
            changes,
            request_sender,
            requests,
            released_sender,
            released,
        }
    }

    /// Runs the task. Ends only when the future is dropped.
    pub(crate) async fn run(mut self, mut source: impl XdsConfigSource) {
        loop {
            let timeout = self.timeout();
            tokio::select! {
                resolution = source.next() => self.configure(resolution),
                Some(change) = self.changes.recv() => self.handle_changes(change),
                Some(request) = self.requests.recv() => self.handle_requests(request),
                Some(token) = self.released.recv() => self.release(token),
                () = sleep_until(timeout) => {}
            }
            self.update_pickers();
            for cluster in self.clusters.values_mut() {
                for host in cluster.take_failed_hosts() {
                    source.look_up_again(&host);
                }
            }
        }
    }

    fn now(&self) -> Instant {
        self.epoch.now()
    }

    fn timeout(&self) -> Option<tokio::time::Instant> {
        let timeouts = self
            .clusters
            .values()
            .filter_map(ClusterDriver::poll_timeout);
        Some(self.epoch.to_tokio(timeouts.min()?))
    }

    /// Handles this change and all that are pending.
    fn handle_changes(&mut self, first: StateChanged) {
        let now = self.now();
        let mut next = Some(first);
        while let Some(change) = next {
            // The cluster may be removed before its change is read.
            if let Some(cluster) = self.clusters.get_mut(&change.token) {
                cluster.refresh(now, change.address);
            }
            next = self.changes.try_recv().ok();
        }
    }

    /// Connects this endpoint and all others that RPCs wait for.
    fn handle_requests(&mut self, first: ConnectionRequest) {
        let now = self.now();
        let mut next = Some(first);
        while let Some(request) = next {
            if let Some(cluster) = self.clusters.get_mut(&request.token) {
                cluster.connect_requested(now, request.endpoint);
            }
            next = self.requests.try_recv().ok();
        }
    }

    fn update_pickers(&mut self) {
        let now = self.now();
        let mut changed = false;
        for cluster in self.clusters.values_mut() {
            changed |= cluster.update_picker(now);
        }
        if changed {
            self.shared.wake();
        }
    }

    fn configure(&mut self, resolution: Resolution) {
        match resolution {
            Ok(config) => self.apply(config),
            // gRFC A74: without listener, route configuration or virtual host, new RPCs fail with the
            // error; those under way finish (C-219).
            Err(error) => {
                tracing::warn!(target: "oxds::channel", channel = %self.shared.target, %error, "no configuration");
                let text = error.to_string();
                self.shared.set(Routing::Failed(status::of_control_plane(
                    Code::Unavailable,
                    text,
                )));
                // RPCs that have chosen a cluster may continue there: the configuration may return.
                self.clusters.retain(|_, cluster| cluster.is_used());
                self.remove_names();
            }
        }
        self.shared.wake();
    }

    fn apply(&mut self, config: Arc<XdsConfig>) {
        // gRFC A31: the LB configuration is applied before the config selector (C-231). So: first the
        // clusters, then the table that names them, then the retirement of clusters that it no longer
        // names. At every moment an RPC finds a cluster that is kept connected.
        let now = self.now();
        let tokens: Vec<_> = config
            .clusters
            .iter()
            .map(|entry| self.token_of(&entry.name))
            .collect();
        let mut clusters = Vec::with_capacity(tokens.len());
        for (entry, token) in config.clusters.iter().zip(&tokens) {
            if let Some(cluster) = self.clusters.get_mut(token) {
                let has_sessions = config.routes.has_sessions;
                let context = LeafContext {
                    loads: self.loads.as_ref(),
                    security: &self.security,
                };
                cluster.configure(now, &entry.config, has_sessions, context);
                clusters.push(cluster.handle());
                cluster.update_picker(now);
            }
        }
        self.shared.set(Routing::Table(RoutingTable {
            config,
            clusters: clusters.into(),
        }));
        self.retire_others(&tokens);
    }

    /// Returns the token of the cluster's driver. Creates the driver if necessary.
    fn token_of(&mut self, name: &Arc<str>) -> u64 {
        if let Some(&token) = self.by_name.get(name) {
            return token;
        }
        let token = self.next_token;
        self.next_token += 1;
        let members = Members::new(
            self.pool.clone(),
            token,
            self.change_sender.clone(),
            self.shared.metrics.clone(),
        );
        let requester = ConnectionRequester::new(token, self.request_sender.clone());
        let released = ReleasedSender::new(token, self.released_sender.clone());
        let cluster =
            ClusterDriver::new(Arc::clone(name), members, requester, released, self.epoch);
        self.clusters.insert(token, cluster);
        self.by_name.insert(Arc::clone(name), token);
        token
    }

    /// Retires the clusters that the routes do not name, and removes those of them that no RPC uses.
    fn retire_others(&mut self, tokens: &[u64]) {
        let named: HashSet<_> = tokens.iter().copied().collect();
        self.clusters.retain(|token, cluster| {
            if named.contains(token) {
                return true;
            }
            // gRFC A31: the cluster lives until the RPCs that chose it have ended their picks (C-231).
            cluster.retire();
            cluster.is_used()
        });
        self.remove_names();
    }

    /// Removes a cluster whose last use has ended. It may be in use again.
    fn release(&mut self, token: u64) {
        let is_unused = |cluster: &ClusterDriver| !cluster.is_used();
        if self.clusters.get(&token).is_some_and(is_unused) {
            self.clusters.remove(&token);
            self.remove_names();
        }
    }

    /// Removes the names of removed clusters.
    fn remove_names(&mut self) {
        self.by_name
            .retain(|_, token| self.clusters.contains_key(token));
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
