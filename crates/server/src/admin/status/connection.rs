//! The part of `/status.json` about the connection of the store to its source.

use std::time::Instant;

use serde::Serialize;

use crate::store::{Connection, LaneState};

/// Connection of a store that has one.
#[derive(Serialize)]
pub(super) struct ConnectionStatus {
    connected: bool,
    since_seconds: Option<f64>,
    cause: Option<String>,
    member: Option<String>,
    ready: bool,
    failures: u64,
    reads: u64,
    lanes: Vec<LaneStatus>,
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

impl From<&Connection> for ConnectionStatus {
    fn from(connection: &Connection) -> Self {
        Self {
            connected: connection.is_connected,
            since_seconds: connection.since.map(|since| since.elapsed().as_secs_f64()),
            cause: connection.cause.clone(),
            member: connection.member.clone(),
            ready: connection.not_ready.is_none(),
            failures: connection.failures,
            reads: connection.reads,
            lanes: connection.lanes.iter().map(LaneStatus::from).collect(),
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
