//! The status key of this replica: `x/<id>`, under a lease.
//!
//! ```text
//!  client of the driver ──▶ lease (10 s) ──▶ put when `StatusPace` says so ──┐
//!                             ▲    └── renewed every 3 s ◀───────────────────┘──▶ shutdown: the lease is revoked
//!                             └── 2 s after an error, or with another client: the same lease, or a new one
//! ```
//!
//! Other replicas and commands read what this one serves, and how far its clients are. It is no condition of serving:
//! while the key cannot be written, a finding says so (G-26).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use oxds_core::rollout::Unanswered;
use oxds_etcd::settled::SettledLanes;
use oxds_etcd::{Head, Key, Prefix, ReplicaStatus, Segment, ServedPublish, StatusPace};
use oxds_types::etcd::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::client::{EtcdClient, EtcdError, LeaseKeeper, Reason};
use super::clock::Clock;
use super::options::random;
use crate::store::finding::Finding;
use crate::store::link::{ClientCounts, ServerLink};

/// Time to live of the lease, in seconds: so long the key of a dead replica stays (G-37).
const LEASE: i64 = 10;
/// Interval of renewals: two may be lost.
const RENEW: Duration = Duration::from_secs(3);
/// Time after an error.
const RETRY: Duration = Duration::from_secs(2);

/// Heads of the state that the server has applied.
pub(super) type Applied = Vec<(Segment, Head)>;

/// Writer of the key.
pub(super) struct StatusKey {
    key: Bytes,
    /// The part that never changes.
    status: ReplicaStatus,
    applied: watch::Receiver<Applied>,
    link: ServerLink,
    client: watch::Receiver<Option<EtcdClient>>,
    /// The lease, which the NACK reports of this replica have, too.
    lease: watch::Sender<Option<i64>>,
    clock: Clock,
    pace: StatusPace,
    settled: SettledLanes,
}

impl StatusKey {
    pub(super) fn new(
        prefix: &Prefix,
        replica: &Segment,
        host: Option<&str>,
        applied: watch::Receiver<Applied>,
        link: ServerLink,
        client: watch::Receiver<Option<EtcdClient>>,
    ) -> Self {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started = started.unwrap_or_default().as_millis();
        let (grpc, http) = link.addresses();
        let status = ReplicaStatus {
            id: replica.to_string(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            started: u64::try_from(started).unwrap_or(u64::MAX),
            grpc: advertised(grpc, host),
            http: http.map_or_else(String::new, |http| {
                // Only this machine reaches a loopback address, by whatever name.
                advertised(http, host.filter(|_| !http.ip().is_loopback()))
            }),
            ..ReplicaStatus::default()
        };
        Self {
            key: prefix.key(&Key::Status(replica.clone())),
            status,
            applied,
            link,
            client,
            lease: watch::Sender::new(None),
            clock: Clock::start(),
            pace: StatusPace::new(random()),
            settled: SettledLanes::default(),
        }
    }

    /// Returns the lease, while there is one.
    pub(super) fn lease_id(&self) -> watch::Receiver<Option<i64>> {
        self.lease.subscribe()
    }

    /// Writes the key until the driver ends, or until the server shuts down; then the key is deleted.
    pub(super) async fn run(mut self, closing: CancellationToken) {
        tokio::select! {
            () = self.maintain() => {}
            () = closing.cancelled() => self.delete().await,
        }
    }

    /// Writes the key until the driver ends.
    async fn maintain(&mut self) {
        let mut clients = self.client.clone();
        loop {
            let client = clients.borrow_and_update().clone();
            let error = tokio::select! {
                error = self.keep(client) => error,
                changed = clients.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            let Err(error) = error;
            self.report(Some(&error));
            tokio::select! {
                () = sleep(RETRY) => {}
                changed = clients.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Ends the lease, and all keys under it with it.
    async fn delete(&self) {
        let client = self.client.borrow().clone();
        let lease = *self.lease.borrow();
        if let Some((client, id)) = client.zip(lease)
            && let Err(error) = client.lease_revoke(LeaseRevokeRequest { id }).await
        {
            debug!(%error, "status key not deleted, its lease ends by itself");
        }
    }

    /// Keeps the lease and writes the key; returns only with an error. Without a client it waits.
    async fn keep(&mut self, client: Option<EtcdClient>) -> Result<Infallible, EtcdError> {
        let Some(client) = client else {
            return std::future::pending().await;
        };
        self.pace.forget();
        let mut keeper = self.lease(&client).await?;
        let mut renew_at = Instant::now() + RENEW;
        loop {
            // Before the status is read: a change in the meantime must count.
            let changes = self.link.changes();
            self.pace.note_look(self.clock.now());
            let status = self.current().await;
            let mut due = self.pace.due(&status);
            if due.is_some_and(|due| due <= self.clock.now()) {
                let request = PutRequest {
                    key: self.key.clone(),
                    value: status.encode().into(),
                    lease: self.lease.borrow().unwrap_or_default(),
                    ..PutRequest::default()
                };
                client.put(request).await?;
                self.report(None);
                self.pace.note_written(self.clock.now(), status);
                due = None;
            }
            let (link, applied) = (&self.link, &mut self.applied);
            let (pace, clock) = (&self.pace, self.clock);
            let next = async {
                tokio::select! {
                    () = link.changed_after(changes) => {}
                    // Only the shutdown closes it, which ends this task.
                    Ok(()) = applied.changed() => {}
                }
                sleep_until(clock.deadline(Some(pace.look_at(clock.now())))).await;
            };
            tokio::select! {
                () = next => {}
                () = sleep_until(self.clock.deadline(due)) => {}
                () = sleep_until(renew_at) => {}
            }
            if renew_at <= Instant::now() {
                keeper.renew().await?;
                renew_at = Instant::now() + RENEW;
            }
        }
    }

    /// Renews the lease, or makes a new one.
    async fn lease(&mut self, client: &EtcdClient) -> Result<LeaseKeeper, EtcdError> {
        let known = *self.lease.borrow();
        if let Some(id) = known {
            match client.lease_keeper(id).await {
                Err(error) if *error.reason() == Reason::LeaseNotFound => {
                    self.lease.send_replace(None);
                }
                kept => return kept,
            }
        }
        let granted = client.lease_grant(LeaseGrantRequest { ttl: LEASE, id: 0 });
        let id = granted.await?.id;
        self.lease.send_replace(Some(id));
        client.lease_keeper(id).await
    }

    /// Returns the status at present.
    async fn current(&mut self) -> ReplicaStatus {
        // Before the clients: they may have answered a later state, which covers this one.
        let heads = self.applied.borrow_and_update().clone();
        let served = |head: &Head| ServedPublish::new(head, head.digest);
        let lanes = heads.iter();
        let lanes = lanes.map(|(lane, head)| (lane.to_string(), served(head)));
        let lanes: BTreeMap<_, _> = lanes.collect();
        let link = self.link.clone();
        // Thousands of clients take milliseconds. It fails only if the runtime shuts down.
        let counted = tokio::task::spawn_blocking(move || link.clients()).await;
        let clients = counted.unwrap_or_else(|_| ClientCounts {
            unanswered: Unanswered {
                change: Some(0),
                ..Unanswered::default()
            },
            ..ClientCounts::default()
        });
        let (change, unanswered) = (clients.change, clients.unanswered);
        ReplicaStatus {
            lanes,
            settled: self.settled.handle(&heads, change, unanswered),
            streams: clients.clients,
            in_sync: clients.in_sync,
            nacked: clients.nacked,
            held: self.link.is_held(),
            ..self.status.clone()
        }
    }

    fn report(&self, error: Option<&EtcdError>) {
        let finding = error.map(|error| {
            let message = format!(
                "the status of this replica is not written: {error}; it serves nevertheless"
            );
            Finding {
                rule: "status-key",
                ..Finding::warning(format!("etcd:x/{}", self.status.id), message)
            }
        });
        let findings = finding.into_iter().collect();
        self.link.report_findings("status key", findings);
    }
}

/// Returns an address as others can reach it: with the host that the operator set, if any.
fn advertised(address: SocketAddr, host: Option<&str>) -> String {
    match host {
        // A literal IPv6 address needs brackets before a port.
        Some(host) if host.contains(':') && !host.starts_with('[') => {
            format!("[{host}]:{}", address.port())
        }
        Some(host) => format!("{host}:{}", address.port()),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g37_advertised_host_replaces_the_address() {
        let address = SocketAddr::from(([0, 0, 0, 0], 18000));
        for (host, expected) in [
            (None, "0.0.0.0:18000"),
            (Some("replica-1"), "replica-1:18000"),
            (Some("2001:db8::1"), "[2001:db8::1]:18000"),
            (Some("[::1]"), "[::1]:18000"),
        ] {
            assert_eq!(advertised(address, host), expected);
        }
    }
}
