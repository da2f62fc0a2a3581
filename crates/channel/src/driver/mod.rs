//! The channel's one task: turns configurations and connectivity into what the request path reads.
//!
//! ```text
//!   configuration ─────┐
//!   subchannel changed ─┼──▶ Driver ──▶ Table, Pickers (swapped in) ──▶ wake the RPCs that wait
//!   failover timer ────┘       │
//!                              └──▶ subchannels: connect, let go
//! ```
//!
//! What happened at once is taken in at once: changes that are already there are drained before any
//! picker is made, so a thousand endpoints that connect together do not cost a thousand pickers.

mod cluster;
mod members;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use oxds_client::load::LoadReporter;
use oxds_core::resolve::{Resolution, XdsConfig};
use oxds_core::time::Instant;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tonic::Code;

use self::cluster::ClusterDriver;
use self::members::Members;
use crate::pool::Pool;
use crate::routing::{Routing, Shared, Table};
use crate::status;
use crate::subchannel::Change;

/// Where configurations come from.
pub(crate) trait Source: Send + 'static {
    /// The next configuration, or why there is none. Pends while nothing changes. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Resolution> + Send;

    /// Where the load of its clusters is reported.
    fn load_reporter(&self) -> Option<LoadReporter> {
        None
    }
}

pub(crate) struct Driver {
    shared: Arc<Shared>,
    pool: Pool,
    loads: Option<LoadReporter>,
    /// The clock's zero.
    epoch: tokio::time::Instant,
    /// By the token of their subchannels' changes.
    clusters: HashMap<u64, ClusterDriver>,
    by_name: HashMap<Arc<str>, u64>,
    next_token: u64,
    tell: UnboundedSender<Change>,
    changes: UnboundedReceiver<Change>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, pool: Pool, loads: Option<LoadReporter>) -> Self {
        let (tell, changes) = mpsc::unbounded_channel();
        Self {
            shared,
            pool,
            loads,
            epoch: tokio::time::Instant::now(),
            clusters: HashMap::new(),
            by_name: HashMap::new(),
            next_token: 0,
            tell,
            changes,
        }
    }

    /// Runs until dropped.
    pub(crate) async fn run(mut self, mut source: impl Source) {
        loop {
            let timeout = self.timeout();
            tokio::select! {
                config = source.next() => self.configure(config),
                Some(change) = self.changes.recv() => self.take_in(change),
                () = sleep_until(timeout) => {}
            }
            self.settle();
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn timeout(&self) -> Option<tokio::time::Instant> {
        let timeouts = self
            .clusters
            .values()
            .filter_map(ClusterDriver::poll_timeout);
        Some(self.epoch + timeouts.min()?.since_epoch())
    }

    fn take_in(&mut self, change: Change) {
        let mut next = Some(change);
        while let Some(change) = next {
            // The cluster may be gone by the time its change is read.
            if let Some(cluster) = self.clusters.get_mut(&change.token) {
                cluster.refresh(change.address);
            }
            next = self.changes.try_recv().ok();
        }
    }

    fn settle(&mut self) {
        let now = self.now();
        let mut changed = false;
        for cluster in self.clusters.values_mut() {
            changed |= cluster.settle(now);
        }
        if changed {
            self.shared.wake();
        }
    }

    fn configure(&mut self, config: Resolution) {
        match config {
            Ok(config) => self.apply(config),
            Err(error) => {
                tracing::warn!(target: "oxds::channel", channel = %self.shared.target, %error, "no configuration");
                let text = error.to_string();
                self.shared.set(Routing::Failed(status::of_control_plane(
                    Code::Unavailable,
                    text,
                )));
                self.keep(&[]);
            }
        }
        self.shared.wake();
    }

    /// Clusters first, then the table that names them, then the end of those it no longer names: an
    /// RPC finds at every moment a cluster that is kept connected (C-231).
    fn apply(&mut self, config: Arc<XdsConfig>) {
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
                cluster.settle(now);
                clusters.push(Arc::clone(cluster.cluster()));
            }
        }
        self.shared.set(Routing::Table(Table {
            config,
            clusters: clusters.into(),
        }));
        self.keep(&tokens);
    }

    /// The token of a cluster's driver, which is made where there is none.
    fn token_of(&mut self, name: &Arc<str>) -> u64 {
        if let Some(&token) = self.by_name.get(name) {
            return token;
        }
        let token = self.next_token;
        self.next_token += 1;
        let members = Members::new(self.pool.clone(), token, self.tell.clone());
        self.clusters
            .insert(token, ClusterDriver::new(Arc::clone(name), members));
        self.by_name.insert(Arc::clone(name), token);
        token
    }

    fn keep(&mut self, tokens: &[u64]) {
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
