//! `oxds status --etcd` and `oxds wait --all --etcd`: all replicas of a configuration in etcd (G-37).

use std::collections::BTreeMap;
use std::time::Duration;

use oxds_core::etcd::Segment;
use oxds_core::etcd::fleet::{Fleet, Unsettled};
use oxds_server::store::etcd::client::Blame;
use oxds_server::store::etcd::writer::{Session, read_fleet};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::etcd_args::EtcdTarget;
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::{Table, one_line};

/// Pause between two reads. A replica writes its status at most every 500 ms, and a read costs etcd little.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints a line for each replica and lane.
pub(super) fn status(target: EtcdTarget, view: View) -> Result<Exit, Failure> {
    let mut session = Session::new(target.endpoints, target.client);
    let read = read_fleet(&mut session, &target.prefix);
    let fleet = runtime()?.block_on(read).map_err(Failure::negative)?;
    let report = FleetReport::of(&fleet);
    view.write(&report, || table(&fleet))?;
    let is_behind = !fleet.unsettled().is_empty() || !fleet.unreadable.is_empty();
    let has_nack = fleet.replicas.values().any(|status| status.nacked > 0);
    let is_held = fleet.replicas.values().any(|status| status.held);
    Ok(match is_behind || has_nack || is_held {
        true => Exit::Negative,
        false => Exit::Success,
    })
}

/// Waits until there is a replica, and each live one has settled the heads of all lanes.
pub(super) fn wait(target: EtcdTarget, timeout: Duration) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let end = Instant::now() + timeout;
        let mut session = Session::new(target.endpoints, target.client);
        loop {
            let timed_out = Instant::now() >= end;
            match read_fleet(&mut session, &target.prefix).await {
                Ok(fleet) => {
                    let missing = missing(&fleet);
                    if missing.is_empty() {
                        return Ok(Exit::Success);
                    }
                    if timed_out {
                        let mut output = Output::new();
                        missing.iter().try_for_each(|line| output.line(line))?;
                        return Ok(Exit::Negative);
                    }
                }
                // etcd may be choosing a leader; another member may answer.
                Err(error) if error.blame() == Blame::Member && !timed_out => {}
                Err(error) => return Err(Failure::negative(error)),
            }
            // After the timeout the loop checks once more.
            sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
        }
    })
}

/// Returns a line for each reason to wait.
fn missing(fleet: &Fleet) -> Vec<String> {
    let mut lines: Vec<_> = fleet
        .unsettled()
        .iter()
        .map(|one| line(fleet, one))
        .collect();
    if fleet.heads.is_empty() {
        lines.push("nothing is published".to_owned());
    } else if fleet.replicas.is_empty() {
        lines.push("no replica is live".to_owned());
    }
    let unreadable = fleet.unreadable.iter();
    lines.extend(unreadable.map(|(key, reason)| one_line(&format!("etcd:{key}: {reason}"))));
    lines
}

fn line(fleet: &Fleet, unsettled: &Unsettled<'_>) -> String {
    let Unsettled {
        replica,
        lane,
        head,
        serves,
        settled,
    } = unsettled;
    let status = fleet.replicas.get(*replica);
    let state = match (serves, settled) {
        (None, _) => "does not serve it".to_owned(),
        (Some(serves), _) if serves < head => format!("serves {serves}"),
        (_, None) => "has no answer of its clients".to_owned(),
        (_, Some(settled)) => format!("its clients have answered {settled}"),
    };
    let clients = status.map_or_else(String::new, |status| {
        let held = if status.held { ", HELD" } else { "" };
        format!(
            "; {} streams, {} in sync, {} with NACKs{held}",
            status.streams, status.in_sync, status.nacked
        )
    });
    let details = status.map(|status| &status.grpc);
    let details = details.filter(|address| !address.is_empty());
    let details = details.map_or_else(String::new, |address| {
        format!("; see `oxds status --server {address}`")
    });
    one_line(&format!(
        "replica {replica}: lane {lane} is at {head}, and it {state}{clients}{details}"
    ))
    .replace("and it its clients", "and its clients")
}

fn table(fleet: &Fleet) -> String {
    let mut lanes = String::new();
    for (lane, head) in &fleet.heads {
        let by = one_line(&head.by);
        lanes += &format!("lane {lane}: publish {} by {by}\n", head.seq);
    }
    let mut table = Table::new([
        "REPLICA", "BUILD", "LANE", "SERVES", "SETTLED", "STREAMS", "IN SYNC", "NACKED", "STATE",
    ]);
    for replica in &FleetReport::of(fleet).replicas {
        for (lane, served) in &replica.lanes {
            let number = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
            table.row([
                replica.id.clone(),
                replica.build.clone(),
                lane.clone(),
                number(served.serves),
                number(served.settled),
                replica.streams.to_string(),
                replica.in_sync.to_string(),
                replica.nacked.to_string(),
                served.state.to_owned(),
            ]);
        }
    }
    let rows = match fleet.replicas.is_empty() {
        true => "no replica is live\n".to_owned(),
        false => table.text(),
    };
    let unreadable = fleet.unreadable.iter();
    let unreadable = unreadable
        .map(|(key, reason)| one_line(&format!("etcd:{key}: {reason}")) + "\n")
        .collect::<String>();
    lanes + &rows + &unreadable
}

/// The report as JSON or YAML. Later versions may add fields, and do not rename any.
#[derive(Debug, Serialize)]
struct FleetReport {
    /// Seq of the head by lane.
    lanes: BTreeMap<String, u64>,
    replicas: Vec<ReplicaReport>,
}

#[derive(Debug, Serialize)]
struct ReplicaReport {
    id: String,
    build: String,
    grpc: String,
    http: String,
    streams: u64,
    in_sync: u64,
    nacked: u64,
    lanes: BTreeMap<String, LaneReport>,
}

#[derive(Debug, Serialize)]
struct LaneReport {
    serves: Option<u64>,
    settled: Option<u64>,
    /// `SETTLED`, `PENDING` (clients have not answered), `BEHIND` (an earlier publish is served) or `HELD`.
    state: &'static str,
}

impl FleetReport {
    fn of(fleet: &Fleet) -> Self {
        let replicas = fleet.replicas.iter();
        let heads = fleet.heads.iter();
        Self {
            lanes: heads
                .map(|(lane, head)| (lane.to_string(), head.seq))
                .collect(),
            replicas: replicas
                .map(|(replica, status)| ReplicaReport {
                    id: replica.to_string(),
                    build: status.build.clone(),
                    grpc: status.grpc.clone(),
                    http: status.http.clone(),
                    streams: status.streams,
                    in_sync: status.in_sync,
                    nacked: status.nacked,
                    lanes: lanes_of(fleet, replica),
                })
                .collect(),
        }
    }
}

fn lanes_of(fleet: &Fleet, replica: &Segment) -> BTreeMap<String, LaneReport> {
    let Some(status) = fleet.replicas.get(replica) else {
        return BTreeMap::new();
    };
    let heads = fleet.heads.iter();
    heads
        .map(|(lane, head)| {
            let serves = status.lane(lane).map(|served| served.seq);
            let settled = status.settled.get(&**lane).copied();
            let state = match () {
                () if status.held => "HELD",
                () if serves.is_none_or(|serves| serves < head.seq) => "BEHIND",
                () if settled.is_none_or(|settled| settled < head.seq) => "PENDING",
                () => "SETTLED",
            };
            let report = LaneReport {
                serves,
                settled,
                state,
            };
            (lane.to_string(), report)
        })
        .collect()
}
