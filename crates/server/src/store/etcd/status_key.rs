//! The status key of this replica: `x/<id>`, under a lease.
//!
//! ```text
//!  client of the driver ──▶ lease (10 s) ──▶ put on change, at most every 500 ms ──┐
//!                             ▲    └── renewed every 3 s ◀─────────────────────────┘
//!                             └── 2 s after an error, or with another client: the same lease, or a new one
//! ```
//!
//! Other replicas and commands read what this one serves, and how far its clients are. It is no condition of serving: while the key
//! cannot be written, a finding says so (G-26).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use oxds_core::etcd::{Head, Key, Prefix, ReplicaStatus, Segment, ServedPublish};
use oxds_types::etcd::{LeaseGrantRequest, PutRequest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{EtcdClient, EtcdError, LeaseKeeper, Reason};
use crate::store::finding::Finding;
use crate::store::link::ServerLink;

/// Time to live of the lease, in seconds: so long the key of a dead replica stays (G-37).
const LEASE: i64 = 10;
/// Interval of renewals: two may be lost.
const RENEW: Duration = Duration::from_secs(3);
/// Least time between two writes (GB-7).
const PAUSE: Duration = Duration::from_millis(500);
/// Time after an error.
const RETRY: Duration = Duration::from_secs(2);

/// Heads of the state that the server has applied.
pub(super) type Applied = Vec<(Segment, Head)>;

/// Writer of the key.
pub(super) struct StatusKey {
    key: Bytes,
    /// The part that never changes, and what was settled last.
    status: ReplicaStatus,
    applied: watch::Receiver<Applied>,
    link: ServerLink,
    client: watch::Receiver<Option<EtcdClient>>,
    lease: Option<i64>,
}

impl StatusKey {
    pub(super) fn new(
        prefix: &Prefix,
        replica: &Segment,
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
            grpc: grpc.to_string(),
            http: http.map_or_else(String::new, |http| http.to_string()),
            ..ReplicaStatus::default()
        };
        Self {
            key: prefix.key(&Key::Status(replica.clone())),
            status,
            applied,
            link,
            client,
            lease: None,
        }
    }

    /// Writes the key until the driver ends.
    pub(super) async fn run(mut self) {
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

    /// Keeps the lease and writes the key; returns only with an error. Without a client it waits.
    async fn keep(&mut self, client: Option<EtcdClient>) -> Result<Infallible, EtcdError> {
        let Some(client) = client else {
            return std::future::pending().await;
        };
        let mut keeper = self.lease(&client).await?;
        let (mut written, mut renew_at) = (None, Instant::now() + RENEW);
        loop {
            // Before the status is read: a change in the meantime must count.
            let changes = self.link.changes();
            let status = self.current().await;
            if written.as_ref() != Some(&status) {
                let request = PutRequest {
                    key: self.key.clone(),
                    value: status.encode().into(),
                    lease: self.lease.unwrap_or_default(),
                    ..PutRequest::default()
                };
                client.put(request).await?;
                self.report(None);
                written = Some(status);
            }
            let (link, applied) = (&self.link, &mut self.applied);
            let next = async {
                sleep(PAUSE).await;
                tokio::select! {
                    () = link.changed_after(changes) => {}
                    // Only the shutdown closes it, which ends this task.
                    Ok(()) = applied.changed() => {}
                }
            };
            tokio::select! {
                () = next => {}
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
        if let Some(id) = self.lease {
            match client.lease_keeper(id).await {
                Err(error) if *error.reason() == Reason::LeaseNotFound => self.lease = None,
                kept => return kept,
            }
        }
        let granted = client.lease_grant(LeaseGrantRequest { ttl: LEASE, id: 0 });
        let id = granted.await?.id;
        self.lease = Some(id);
        client.lease_keeper(id).await
    }

    /// Returns the status at present. What all clients have answered is settled.
    async fn current(&mut self) -> ReplicaStatus {
        // Before the clients: they may have answered a later state, which covers this one.
        let lanes: BTreeMap<_, _> = {
            let heads = self.applied.borrow_and_update();
            let served = |head: &Head| ServedPublish::new(head, head.digest);
            let heads = heads.iter();
            heads
                .map(|(lane, head)| (lane.to_string(), served(head)))
                .collect()
        };
        let link = self.link.clone();
        // Thousands of clients take milliseconds. It fails only if the runtime shuts down.
        let counted = tokio::task::spawn_blocking(move || link.clients()).await;
        let clients = counted.unwrap_or_default();
        if clients.is_settled {
            let settled = lanes
                .iter()
                .map(|(lane, served)| (lane.clone(), served.seq));
            self.status.settled = settled.collect();
        }
        ReplicaStatus {
            lanes,
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
        self.link.report_findings(finding.into_iter().collect());
    }
}
