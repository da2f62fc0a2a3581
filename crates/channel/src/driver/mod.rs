//! The channel's one task: turns configurations and connectivity into the routing table and pickers
//! that the request path reads.
//!
//! ```text
//!   configuration ──────┐
//!   subchannel changed ─┼──▶ ChannelDriver ──▶ RoutingTable, Pickers (swapped in) ──▶ wake waiting RPCs
//!   endpoint wanted ────┤         │
//!   timers ─────────────┘         │
//!                                 └──▶ subchannels: connect, release
//! ```
//!
//! The driver reads all pending changes before it builds a picker, so a thousand endpoints that connect
//! at the same time do not cost a thousand pickers.

mod cluster;
mod epoch;
mod leaf;
mod level;
mod members;
mod weights;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use oxds_client::load::LoadReporter;
use oxds_core::resolve::{Resolution, XdsConfig};
use oxds_core::time::Instant;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tonic::Code;

use self::cluster::ClusterDriver;
use self::epoch::Epoch;
use self::members::Members;
use crate::picker::{Wanted, WantedSender};
use crate::pool::Pool;
use crate::routing::{ChannelShared, Routing, RoutingTable};
use crate::status;
use crate::subchannel::StateChanged;

/// Source of a channel's configurations: the xDS client, or a script in tests.
pub(crate) trait XdsConfigSource: Send + 'static {
    /// Returns the next configuration, or the error that replaces it. Pends while nothing changes.
    /// Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Resolution> + Send;

    /// Returns the reporter for the load of its clusters.
    fn load_reporter(&self) -> Option<LoadReporter> {
        None
    }
}

/// State of the channel's task.
pub(crate) struct ChannelDriver {
    shared: Arc<ChannelShared>,
    pool: Pool,
    loads: Option<LoadReporter>,
    epoch: Epoch,
    /// By the token that their subchannels' changes carry.
    clusters: HashMap<u64, ClusterDriver>,
    by_name: HashMap<Arc<str>, u64>,
    next_token: u64,
    change_sender: UnboundedSender<StateChanged>,
    changes: UnboundedReceiver<StateChanged>,
    wanted_sender: UnboundedSender<Wanted>,
    /// Idle endpoints that RPCs wait for.
    wanted: UnboundedReceiver<Wanted>,
}

impl ChannelDriver {
    pub(crate) fn new(shared: Arc<ChannelShared>, pool: Pool, loads: Option<LoadReporter>) -> Self {
        let (change_sender, changes) = mpsc::unbounded_channel();
        let (wanted_sender, wanted) = mpsc::unbounded_channel();
        Self {
            shared,
            pool,
            loads,
            epoch: Epoch::start(),
            clusters: HashMap::new(),
            by_name: HashMap::new(),
            next_token: 0,
            change_sender,
            changes,
            wanted_sender,
            wanted,
        }
    }

    /// Runs the task. Ends only when the future is dropped.
    pub(crate) async fn run(mut self, mut source: impl XdsConfigSource) {
        loop {
            let timeout = self.timeout();
            tokio::select! {
                resolution = source.next() => self.configure(resolution),
                Some(change) = self.changes.recv() => self.handle_changes(change),
                Some(wanted) = self.wanted.recv() => self.handle_wanted(wanted),
                () = sleep_until(timeout) => {}
            }
            self.update_pickers();
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
    fn handle_wanted(&mut self, first: Wanted) {
        let now = self.now();
        let mut next = Some(first);
        while let Some(wanted) = next {
            if let Some(cluster) = self.clusters.get_mut(&wanted.token) {
                cluster.connect_wanted(now, wanted.member);
            }
            next = self.wanted.try_recv().ok();
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
                self.retain_clusters(&[]);
            }
        }
        self.shared.wake();
    }

    fn apply(&mut self, config: Arc<XdsConfig>) {
        // gRFC A31: the LB configuration is applied before the config selector (C-231). So: first the
        // clusters, then the table that names them, then the removal of clusters that it no longer
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
                cluster.configure(now, &entry.config, self.loads.as_ref());
                cluster.update_picker(now);
                clusters.push(Arc::clone(cluster.handle()));
            }
        }
        self.shared.set(Routing::Table(RoutingTable {
            config,
            clusters: clusters.into(),
        }));
        self.retain_clusters(&tokens);
    }

    /// Returns the token of the cluster's driver. Creates the driver if necessary.
    fn token_of(&mut self, name: &Arc<str>) -> u64 {
        if let Some(&token) = self.by_name.get(name) {
            return token;
        }
        let token = self.next_token;
        self.next_token += 1;
        let members = Members::new(self.pool.clone(), token, self.change_sender.clone());
        let wanted = WantedSender::new(token, self.wanted_sender.clone());
        self.clusters.insert(
            token,
            ClusterDriver::new(Arc::clone(name), members, wanted, self.epoch),
        );
        self.by_name.insert(Arc::clone(name), token);
        token
    }

    fn retain_clusters(&mut self, tokens: &[u64]) {
        let kept: HashSet<_> = tokens.iter().copied().collect();
        self.by_name.retain(|_, token| kept.contains(token));
        self.clusters.retain(|token, cluster| {
            let keep = kept.contains(token);
            if !keep {
                cluster.close();
            }
            keep
        });
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
