//! The link from a store back to the server that it feeds.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::rollout::Unanswered;
#[cfg(feature = "etcd")]
use oxds_etcd::rollback::{Decision, LocalChanges};
#[cfg(feature = "etcd")]
use oxds_etcd::{Segment, shedding::Shed};
#[cfg(feature = "etcd")]
use tokio::sync::Notify;

use super::connection::Connection;
#[cfg(feature = "etcd")]
use super::connection::ReplicaState;
#[cfg(feature = "etcd")]
use super::finding::Finding;
use super::health::Health;
#[cfg(feature = "etcd")]
use super::health::Reporter;
use crate::cache::Cache;

/// A handle to the server that a store feeds. A store receives it by [`Store::link`](super::Store::link).
#[derive(Clone)]
pub struct ServerLink(Arc<Server>);

struct Server {
    health: Arc<Health>,
    cache: Cache,
    grpc: SocketAddr,
    http: Option<SocketAddr>,
    clients: Box<CountClients>,
    #[cfg(feature = "etcd")]
    member: Arc<dyn FleetMember>,
}

/// Changes on trial, for a store that decides about rollbacks.
#[cfg(feature = "etcd")]
pub(crate) trait FleetMember: LocalChanges + Send + Sync {
    /// Returns the number of nodes that may NACK a change; `None` if NACKs lead to no rollback.
    fn threshold(&self) -> Option<usize>;
    /// Returns the number of open discovery streams.
    fn streams(&self) -> u64;
    /// Asks clients to reconnect, so that they may choose another server: those of the oldest connections.
    fn shed(&self, shed: Shed);
    /// Returns what is notified after NACKs of changes on trial.
    fn nacked_notify(&self) -> &Notify;
    /// Sets the decisions of all replicas that apply, with their lanes.
    fn set_rollbacks(&self, decisions: &[(Segment, Decision)]);
}

type CountClients = dyn Fn() -> ClientCounts + Send + Sync;

/// How far the clients of a server are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounts {
    /// Open streams, and clients that poll.
    pub clients: u64,
    /// Those that have accepted everything that they are served.
    pub in_sync: u64,
    /// Those that have NACKed something that they are served.
    pub nacked: u64,
    /// Number of the latest change before the clients were counted.
    pub change: u64,
    /// Changes that clients have neither accepted nor NACKed.
    pub unanswered: Unanswered,
}

impl ServerLink {
    pub(crate) fn new(
        health: Arc<Health>,
        cache: Cache,
        (grpc, http): (SocketAddr, Option<SocketAddr>),
        clients: impl Fn() -> ClientCounts + Send + Sync + 'static,
        #[cfg(feature = "etcd")] member: Arc<dyn FleetMember>,
    ) -> Self {
        Self(Arc::new(Server {
            health,
            cache,
            grpc,
            http,
            clients: Box::new(clients),
            #[cfg(feature = "etcd")]
            member,
        }))
    }

    /// Reports how the store is connected. Costs nothing if that is as before.
    pub fn report(&self, connection: Connection) {
        if self.0.health.set_connection(connection) {
            self.0.cache.notifier().notify();
        }
    }

    /// Returns the addresses of the server: the gRPC port, and the HTTP port if there is one.
    #[must_use]
    pub fn addresses(&self) -> (SocketAddr, Option<SocketAddr>) {
        (self.0.grpc, self.0.http)
    }

    /// Returns how far the clients are. Costs as much as there are clients.
    #[must_use]
    pub fn clients(&self) -> ClientCounts {
        (self.0.clients)()
    }

    /// Replaces the findings of one part of the store's own work, beside those of its updates.
    #[cfg(feature = "etcd")]
    pub(crate) fn report_findings(&self, part: &'static str, findings: Vec<Finding>) {
        let Server { health, cache, .. } = &*self.0;
        Reporter::new(part, Arc::clone(health), cache.clone()).report(findings);
    }

    /// Returns the changes on trial.
    #[cfg(feature = "etcd")]
    pub(crate) fn member(&self) -> &dyn FleetMember {
        &*self.0.member
    }

    /// Returns whether a part of the source is held back.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_held(&self) -> bool {
        let connection = self.0.health.connection();
        let lanes = connection.iter().flat_map(|connection| &connection.lanes);
        lanes.into_iter().any(|lane| lane.is_held)
    }

    /// Returns whether the server keeps its state on disk.
    #[cfg(feature = "etcd")]
    pub(crate) fn keeps_state(&self) -> bool {
        self.0.health.state().is_some()
    }

    /// Reports the rollbacks that all servers of the source have decided.
    #[cfg(feature = "etcd")]
    pub(crate) fn report_rollbacks(&self, decisions: &[(Segment, Decision)]) {
        self.0.member.set_rollbacks(decisions);
        self.0.cache.notifier().notify();
    }

    /// Reports the servers that follow the same source.
    #[cfg(feature = "etcd")]
    pub(crate) fn report_replicas(&self, replicas: Vec<ReplicaState>) {
        self.0.health.set_replicas(replicas);
        self.0.cache.notifier().notify_of_others();
    }

    /// Returns the number of changes of all that the status of this server shows.
    #[cfg(feature = "etcd")]
    pub(crate) fn changes(&self) -> u64 {
        self.0.cache.notifier().own()
    }

    /// Waits until there are more changes.
    #[cfg(feature = "etcd")]
    pub(crate) async fn changed_after(&self, changes: u64) {
        self.0.cache.notifier().changed_after(changes).await;
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").finish_non_exhaustive()
    }
}
