//! The rollbacks of all replicas: the driver of [`oxds_etcd::rollback`].

use oxds_core::time::Instant;
use oxds_etcd::follower::Follower;
use oxds_etcd::rollback::{FleetRollback, Obstacle, Write};
use oxds_etcd::{Prefix, Segment};
use tokio::sync::watch;
use tracing::warn;

use crate::store::finding::Finding;
use crate::store::link::ServerLink;

/// The machine, and what it has seen.
pub(super) struct RollbackKeys {
    machine: FleetRollback,
    link: ServerLink,
    lease: watch::Receiver<Option<i64>>,
    /// [`Follower::fleet_changes`] that the machine has seen.
    seen: Option<u64>,
    obstacles: Vec<Obstacle>,
}

impl RollbackKeys {
    /// Makes it, if the server rolls back what clients NACK.
    pub(super) fn new(
        prefix: &Prefix,
        replica: &Segment,
        link: &ServerLink,
        lease: watch::Receiver<Option<i64>>,
    ) -> Option<Self> {
        let threshold = link.member().threshold()?;
        Some(Self {
            machine: FleetRollback::new(prefix.clone(), replica.clone(), threshold),
            link: link.clone(),
            lease,
            seen: None,
            obstacles: Vec::new(),
        })
    }

    /// Waits until a client has NACKed a change on trial.
    pub(super) async fn nacked(link: &ServerLink) {
        link.member().nacked_notify().notified().await;
    }

    /// Clients have NACKed something.
    pub(super) fn note_nack(&mut self) {
        self.seen = None;
    }

    /// Lets the machine look at what has changed. It reads the sessions of all clients only while a NACKed version is
    /// open.
    pub(super) fn handle(&mut self, now: Instant, follower: &Follower) {
        let changes = follower.fleet_changes();
        let is_due = self.timeout().is_some_and(|at| at <= now);
        if self.seen == Some(changes) && !is_due {
            return;
        }
        self.seen = Some(changes);
        self.machine.handle(now, follower, self.link.member());
        let obstacles = self.machine.obstacles();
        if self.obstacles != obstacles {
            self.obstacles = obstacles.to_vec();
            self.report();
        }
    }

    /// Returns the next write, while there is a lease.
    pub(super) fn next_write(&mut self) -> Option<Write> {
        let lease = (*self.lease.borrow())?;
        self.machine.poll_write(lease)
    }

    /// Returns when to call [`handle`](Self::handle) next.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn report(&self) {
        let findings = self.obstacles.iter().map(|obstacle| {
            let key = format!("etcd:{}", obstacle.bad.decision_key());
            let message = format!(
                "clients NACKed version {}, and it is not rolled back: {}",
                obstacle.bad.version, obstacle.kind
            );
            warn!(key, reason = %obstacle.kind, "no rollback");
            Finding {
                rule: "no-rollback",
                ..Finding::warning(key, message)
            }
        });
        let findings = findings.collect();
        self.link.report_findings("rollbacks", findings);
    }
}
