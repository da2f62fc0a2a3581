//! Log lines, status and metrics of the follower.

use std::collections::BTreeMap;
use std::time::{Duration, Instant as StdInstant, SystemTime};

use oxds_core::time::Instant;
use oxds_etcd::follower::{
    Failure, FailureKind, Follower, FollowerUpdate, LaneStatus, Notice, ReadReason,
};
use oxds_etcd::{ReplicaStatus, Segment, Space};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::clock::Clock;
use crate::store::connection::{Connection, LaneState, ReplicaState, StoreSpace};

/// Reporter of one follower.
#[derive(Debug)]
pub(super) struct Report {
    clock: Clock,
    /// Kind of the failure that was logged last, while no watch works.
    logged: Option<FailureKind>,
    /// Disorder was logged for this connection.
    has_logged_disorder: bool,
    connected_since: Option<StdInstant>,
    failures: u64,
    reads: u64,
    /// Id of this replica.
    replica: Segment,
    /// Version of the statuses of replicas that were reported last.
    replicas_version: u64,
    /// These statuses, and since when each has been so.
    replicas: BTreeMap<Segment, (ReplicaStatus, StdInstant)>,
    /// Size of the database, once it is known.
    space: watch::Receiver<Option<Space>>,
    /// A state is served: the store's, or that of an earlier process.
    serves: bool,
}

impl Report {
    /// `serves`: an earlier process kept a state, which is served.
    pub(super) fn new(
        clock: Clock,
        replica: Segment,
        space: watch::Receiver<Option<Space>>,
        serves: bool,
    ) -> Self {
        Self {
            clock,
            logged: None,
            has_logged_disorder: false,
            connected_since: None,
            failures: 0,
            reads: 0,
            replica,
            replicas_version: 0,
            replicas: BTreeMap::new(),
            space,
            serves,
        }
    }

    /// Notes that a state is served from now on.
    pub(super) fn served(&mut self) {
        self.serves = true;
    }

    /// Logs and counts what has happened.
    pub(super) fn notice(&mut self, notice: Notice, member: &str) {
        match notice {
            Notice::Following { revision } => {
                if self.logged.take().is_some() {
                    info!(member, revision, "following etcd again");
                } else {
                    debug!(member, revision, "following etcd");
                }
            }
            Notice::Disconnected(failure) => self.disconnected(&failure, member),
            Notice::Reading(reason) => {
                self.reads += 1;
                match reason {
                    ReadReason::First => info!(member, "reading the configuration from etcd"),
                    reason => warn!(member, %reason, "reading the whole configuration again"),
                }
            }
            Notice::ChainBroken { lane, from, to } => {
                warn!(%lane, from, to, "following another history of the lane");
            }
            Notice::Disorder { events } => {
                if std::mem::replace(&mut self.has_logged_disorder, true) {
                    debug!(member, events, "etcd sent events out of order");
                } else {
                    warn!(member, events, "etcd sent events out of order");
                }
            }
        }
    }

    /// Logs the first failure of an outage, and each of another kind. Retries fail for hours.
    fn disconnected(&mut self, failure: &Failure, member: &str) {
        self.failures += 1;
        self.has_logged_disorder = false;
        if self.logged.replace(failure.kind) == Some(failure.kind) {
            debug!(member, cause = %failure, "etcd connection failed again");
        } else if self.serves {
            warn!(member, cause = %failure, "etcd connection failed, the last good state stays served");
        } else {
            warn!(member, cause = %failure, "etcd connection failed, nothing is served until a member answers");
        }
    }

    /// Logs a change of the served state.
    pub(super) fn updated(update: &FollowerUpdate, took: Duration) {
        if update.publishes == 0 {
            let resources = update.changes.upserts.len() + update.changes.removals.len();
            info!(
                resources,
                groups = update.groups.len(),
                ?took,
                "rollback of all replicas applied or ended"
            );
            return;
        }
        for (lane, head) in &update.heads {
            let (seq, publish, by) = (head.seq, head.publish, &head.by);
            let (publishes, revision) = (update.publishes, update.revision);
            info!(%lane, seq, %publish, ?by, publishes, revision, ?took, "publish applied");
        }
    }

    /// Returns the status.
    pub(super) fn connection(
        &mut self,
        follower: &Follower,
        now: Instant,
        member: &str,
    ) -> Connection {
        let status = follower.status(now);
        let since = match (&status.trouble, status.is_connected) {
            (Some((since, _)), _) => Some(self.clock.ago(now, now - *since)),
            (None, true) => self
                .connected_since
                .or_else(|| Some(self.clock.ago(now, Duration::ZERO))),
            (None, false) => None,
        };
        self.connected_since = since.filter(|_| status.is_connected);
        let lanes = status.lanes.iter();
        Connection {
            is_connected: status.is_connected,
            since,
            cause: status.trouble.map(|(_, failure)| failure.to_string()),
            member: Some(member.to_owned()),
            lanes: lanes.map(|lane| self.lane(lane, now)).collect(),
            not_ready: (!follower.is_ready()).then(|| {
                "another replica serves a publish of the store that this one cannot verify"
                    .to_owned()
            }),
            failures: self.failures,
            reads: self.reads,
            space: self.space.borrow().map(|space| StoreSpace {
                size: space.size,
                in_use: space.in_use,
                quota: space.quota,
            }),
        }
    }

    /// Returns the replicas if they have changed.
    pub(super) fn replicas(&mut self, follower: &Follower) -> Option<Vec<ReplicaState>> {
        let version = follower.replicas_version();
        if version == self.replicas_version {
            return None;
        }
        self.replicas_version = version;
        let now = StdInstant::now();
        let mut before = std::mem::take(&mut self.replicas);
        for (id, status) in follower.replicas().take(MAX_REPLICAS) {
            let known = before.remove(id).filter(|(known, _)| known == status);
            let entry = known.unwrap_or_else(|| (status.clone(), now));
            self.replicas.insert(id.clone(), entry);
        }
        let all = self.replicas.iter();
        let all = all.map(|(id, (status, since))| replica(id, status, *since, *id == self.replica));
        Some(all.collect())
    }

    fn lane(&self, lane: &LaneStatus, now: Instant) -> LaneState {
        let since = |ago: Duration| (!ago.is_zero()).then(|| self.clock.ago(now, ago));
        let serving = lane.serving.as_ref();
        LaneState {
            lane: lane.lane.to_string(),
            seq: serving.map_or(0, |head| head.seq),
            publish: serving.map_or_else(String::new, |head| head.publish.to_string()),
            digest: serving.map_or_else(String::new, |head| head.digest.to_string()),
            lag: lane.behind,
            // The time is measured until the next input, the number until the update.
            lag_since: since(lane.behind_for).filter(|_| lane.behind > 0),
            is_held: lane.is_held,
            diverged_since: since(lane.diverged_for),
        }
    }
}

/// Replicas that are reported: every writer of the prefix may add keys.
const MAX_REPLICAS: usize = 200;
/// Lanes of a replica that are reported.
const MAX_LANES: usize = 20;
/// Characters of a text of another replica that are kept.
const MAX_TEXT: usize = 100;

fn replica(id: &Segment, status: &ReplicaStatus, since: StdInstant, is_this: bool) -> ReplicaState {
    let clipped = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
    let lanes = status.lanes.iter().take(MAX_LANES);
    let started = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(status.started));
    ReplicaState {
        id: clipped(id),
        is_this,
        build: clipped(&status.build),
        started: started.unwrap_or(SystemTime::UNIX_EPOCH),
        http: clipped(&status.http),
        lanes: lanes
            .map(|(lane, served)| (clipped(lane), served.seq))
            .collect(),
        streams: status.streams,
        in_sync: status.in_sync,
        nacked: status.nacked,
        is_held: status.held,
        since,
    }
}
