//! The server over real sockets, with an independent client: bare hyper, and hand-made messages.

// `allow-unwrap-in-tests` does not reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod abuse;
mod access;
mod admin;
mod ads;
mod budgets;
mod client;
mod conformance;
mod cost;
mod csds;
mod dir;
mod etcd;
mod etcd_store;
mod files;
mod groups;
mod history;
mod hooks;
mod hostile;
mod library;
mod load;
mod majors;
mod make_before_break;
mod memory;
mod metrics;
mod on_nack;
#[cfg(feature = "page")]
mod page;
mod per_type;
mod polling;
mod polling_faults;
#[cfg(feature = "tls")]
mod security;
#[cfg(feature = "tls")]
mod security_polls;
mod services;
mod state;
mod store;
mod versions;
mod vhds;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::{Builder, Cache, Server};
use oxds_types::ResourceType;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use oxds_testkit::SOON;

/// A running server. Dropping it stops the server.
pub(crate) struct Running {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) cache: Cache,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(builder: Builder) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = builder.grpc(any).http(any).bind().await.unwrap();
        let (stop, stopped) = oneshot::channel();
        Self {
            grpc: server.grpc_addr(),
            http: server.http_addr().unwrap(),
            cache: server.cache(),
            stop: Some(stop),
            task: tokio::spawn(server.run(async {
                let _ = stopped.await;
            })),
        }
    }

    /// Starts a server with these clusters.
    pub(crate) async fn with_clusters(clusters: &[&str]) -> Self {
        let running = Self::start(Server::builder()).await;
        running.cache.apply(upsert(clusters));
        running
    }

    /// Waits until the metrics have this line.
    pub(crate) async fn counts(&self, line: &str) {
        until(line, async || {
            let (_, metrics) = admin::get(self.http, "/metrics").await;
            metrics.lines().any(|found| found == line).then_some(())
        })
        .await;
    }

    /// Returns the sum of the metrics whose lines begin with `name`.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = admin::get(self.http, "/metrics").await;
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates a change set that adds clusters with these names.
pub(crate) fn upsert(clusters: &[&str]) -> ChangeSet {
    let upserts = clusters
        .iter()
        .map(|name| Arc::new(cluster(name, b"")))
        .collect();
    ChangeSet {
        upserts,
        ..ChangeSet::default()
    }
}

pub(crate) fn cluster(name: &str, rest: &[u8]) -> Resource {
    let mut value = vec![0x0a, u8::try_from(name.len()).unwrap()];
    value.extend_from_slice(name.as_bytes());
    value.extend_from_slice(rest);
    Resource::new(ResourceType::CLUSTER, name, &value)
}

pub(crate) fn removal(clusters: &[&str]) -> ChangeSet {
    let removals = clusters
        .iter()
        .map(|name| (ResourceType::CLUSTER, Arc::from(*name)))
        .collect();
    ChangeSet {
        removals,
        ..ChangeSet::default()
    }
}

/// Calls `probe` until it returns a value.
pub(crate) async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{what}: not within {SOON:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
