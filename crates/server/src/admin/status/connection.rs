//! The part of `/status.json` about the connection of the store to its source.

use std::time::Instant;

use serde::Serialize;

use crate::store::{Connection, LaneState, ReplicaState, StoreSpace};

/// Connection of a store that has one.
#[derive(Serialize)]
pub(crate) struct ConnectionStatus {
    pub(crate) connected: bool,
    pub(crate) since_seconds: Option<f64>,
    pub(crate) cause: Option<String>,
    member: Option<String>,
    ready: bool,
    failures: u64,
    reads: u64,
    space: Option<SpaceStatus>,
    lanes: Vec<LaneStatus>,
    pub(crate) replicas: Vec<ReplicaStatus>,
}

/// A server that follows the same source.
#[derive(Serialize)]
pub(crate) struct ReplicaStatus {
    pub(crate) id: String,
    pub(crate) this: bool,
    pub(crate) build: String,
    pub(crate) http: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) lanes: Vec<ReplicaLane>,
    pub(crate) streams: u64,
    pub(crate) in_sync: u64,
    pub(crate) nacked: u64,
    pub(crate) held: bool,
    pub(crate) since_seconds: f64,
}

/// A lane as a replica serves it.
#[derive(Serialize)]
pub(crate) struct ReplicaLane {
    pub(crate) lane: String,
    pub(crate) seq: u64,
    /// Publishes that this server knows and the replica does not serve.
    pub(crate) lag: u64,
}

/// Size of the database of etcd.
#[derive(Serialize)]
struct SpaceStatus {
    size: u64,
    in_use: u64,
    quota: Option<u64>,
}

/// One lane of a configuration in etcd.
#[derive(Serialize)]
struct LaneStatus {
    lane: String,
    seq: u64,
    publish: String,
    digest: String,
    lag: u64,
    lag_seconds: f64,
    held: bool,
    diverged_seconds: f64,
}

impl ConnectionStatus {
    pub(super) fn of(connection: &Connection, replicas: &[ReplicaState]) -> Self {
        let of_replica = |replica| ReplicaStatus::of(replica, &connection.lanes);
        Self {
            connected: connection.is_connected,
            since_seconds: connection.since.map(|since| since.elapsed().as_secs_f64()),
            cause: connection.cause.clone(),
            member: connection.member.clone(),
            ready: connection.not_ready.is_none(),
            failures: connection.failures,
            reads: connection.reads,
            space: connection.space.map(SpaceStatus::from),
            lanes: connection.lanes.iter().map(LaneStatus::from).collect(),
            replicas: replicas.iter().map(of_replica).collect(),
        }
    }
}

impl ReplicaStatus {
    fn of(replica: &ReplicaState, known: &[LaneState]) -> Self {
        let lanes = replica.lanes.iter().map(|(lane, seq)| {
            let known = known.iter().find(|known| known.lane == *lane);
            let latest = known.map_or(0, |known| known.seq + known.lag);
            ReplicaLane {
                lane: lane.clone(),
                seq: *seq,
                lag: latest.saturating_sub(*seq),
            }
        });
        // The clock of another machine may be ahead.
        let uptime = replica.started.elapsed().unwrap_or_default();
        Self {
            id: replica.id.clone(),
            this: replica.is_this,
            build: replica.build.clone(),
            http: replica.http.clone(),
            uptime_seconds: uptime.as_secs_f64(),
            lanes: lanes.collect(),
            streams: replica.streams,
            in_sync: replica.in_sync,
            nacked: replica.nacked,
            held: replica.is_held,
            since_seconds: replica.since.elapsed().as_secs_f64(),
        }
    }
}

impl From<StoreSpace> for SpaceStatus {
    fn from(space: StoreSpace) -> Self {
        Self {
            size: space.size,
            in_use: space.in_use,
            quota: space.quota,
        }
    }
}

impl From<&LaneState> for LaneStatus {
    fn from(lane: &LaneState) -> Self {
        let seconds =
            |since: Option<Instant>| since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        Self {
            lane: lane.lane.clone(),
            seq: lane.seq,
            publish: lane.publish.clone(),
            digest: lane.digest.clone(),
            lag: lane.lag,
            lag_seconds: seconds(lane.lag_since),
            held: lane.is_held,
            diverged_seconds: seconds(lane.diverged_since),
        }
    }
}
