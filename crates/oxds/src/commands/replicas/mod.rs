//! `oxds status --etcd` and `oxds wait --all --etcd`: all replicas of a configuration in etcd (G-37).

mod clients;
mod rollbacks;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oxds_etcd::Segment;
use oxds_etcd::fleet::{Fleet, Unsettled};
use oxds_server::store::etcd::client::Blame;
use oxds_server::store::etcd::writer::{Session, read_fleet};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::args::control_plane::ControlPlaneArgs;
use super::args::etcd::EtcdTarget;
use super::nodes::missing::MissingAnswer;
use super::nodes::report::AwayNode;
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::{Table, one_line};
use clients::Clients;
use rollbacks::RollbackReport;

/// Pause between two reads. A replica writes its status at most every 500 ms, and a read costs etcd little.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints a line for each replica and lane, for each answer that is missing, and for each node that has left.
pub(super) fn status(
    target: EtcdTarget,
    args: &ControlPlaneArgs,
    view: View,
) -> Result<Exit, Failure> {
    let mut session = Session::new(target.endpoints, target.client);
    let (fleet, clients) = runtime()?.block_on(async {
        let read = read_fleet(&mut session, &target.prefix).await;
        let fleet = read.map_err(Failure::negative)?;
        let clients = Clients::of(&fleet, args).await;
        Ok::<_, Failure>((fleet, clients))
    })?;
    let report = FleetReport::of(&fleet, &clients);
    view.write(&report, || table(&fleet, &clients))?;
    let is_behind = !fleet.unsettled().is_empty() || !fleet.unreadable.is_empty();
    let is_held = fleet.replicas.values().any(|status| status.held);
    let is_rolled_back = !fleet.rollbacks.is_empty();
    Ok(
        if is_behind || has_nack(&fleet) || is_held || is_rolled_back {
            Exit::Negative
        } else {
            Exit::Success
        },
    )
}

/// Waits until there is a replica, and each live one has settled what was published at the first read. A NACK is an
/// answer, and the command then fails.
pub(super) fn wait(
    target: EtcdTarget,
    args: &ControlPlaneArgs,
    timeout: Duration,
) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let end = Instant::now() + timeout;
        let mut session = Session::new(target.endpoints, target.client);
        let mut first = None;
        loop {
            let timed_out = Instant::now() >= end;
            match read_fleet(&mut session, &target.prefix).await {
                Ok(mut fleet) => {
                    if !fleet.heads.is_empty() {
                        let first = first.get_or_insert_with(|| fleet.heads.clone());
                        fleet.wait_for(first);
                    }
                    let missing = missing(&fleet);
                    if missing.is_empty() && !has_nack(&fleet) {
                        return Ok(Exit::Success);
                    }
                    if missing.is_empty() || timed_out {
                        print_missing(&fleet, missing, args).await?;
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

fn has_nack(fleet: &Fleet) -> bool {
    fleet.replicas.values().any(|status| status.nacked > 0)
}

/// Prints why the command does not succeed: lanes and replicas, then the answers that are missing, then nodes that have
/// left.
async fn print_missing(
    fleet: &Fleet,
    missing: Vec<String>,
    args: &ControlPlaneArgs,
) -> Result<(), Failure> {
    let clients = Clients::of(fleet, args).await;
    let unsettled: BTreeSet<_> = fleet.unsettled().iter().map(|one| one.replica).collect();
    let concerned = fleet
        .replicas
        .iter()
        .filter(|(replica, status)| status.nacked > 0 || unsettled.contains(replica));
    let answers = concerned.flat_map(|(replica, _)| clients.lines(replica));
    let lines = missing
        .into_iter()
        .chain(answers)
        .chain(clients.away_lines());
    let mut output = Output::new();
    lines.into_iter().try_for_each(|line| output.line(&line))
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
    one_line(&format!(
        "replica {replica}: lane {lane} is at {head}, and it {state}{clients}"
    ))
    .replace("and it its clients", "and its clients")
}

fn table(fleet: &Fleet, clients: &Clients) -> String {
    let mut lanes = String::new();
    for (lane, head) in &fleet.heads {
        let by = one_line(&head.by);
        lanes += &format!("lane {lane}: publish {} by {by}\n", head.seq);
    }
    let mut table = Table::new([
        "REPLICA", "BUILD", "LANE", "SERVES", "SETTLED", "STREAMS", "IN SYNC", "NACKED", "STATE",
    ]);
    for replica in &FleetReport::of(fleet, clients).replicas {
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
    let rows = if fleet.replicas.is_empty() {
        "no replica is live\n".to_owned()
    } else {
        table.text()
    };
    let unreadable = fleet.unreadable.iter();
    let unreadable = unreadable
        .map(|(key, reason)| one_line(&format!("etcd:{key}: {reason}")) + "\n")
        .collect::<String>();
    let answers = fleet
        .replicas
        .keys()
        .flat_map(|replica| clients.lines(replica));
    let answers = answers.chain(clients.away_lines());
    let answers: String = answers.map(|line| line + "\n").collect();
    let rollbacks = rollbacks::lines(fleet);
    lanes + &rows + &answers + &rollbacks + &unreadable
}

/// The report as JSON or YAML. Later versions may add fields, and do not rename any.
#[derive(Debug, Serialize)]
struct FleetReport {
    /// Seq of the head by lane.
    lanes: BTreeMap<String, u64>,
    replicas: Vec<ReplicaReport>,
    /// Resources that all replicas have rolled back.
    rollbacks: Vec<RollbackReport>,
    /// Nodes that were connected within the last two minutes, and are connected to no replica.
    away: Vec<AwayNode>,
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
    /// Resources that clients have not accepted; null if the replica does not list them.
    missing: Option<Vec<MissingAnswer>>,
    /// Number of these that are not listed.
    more_missing: usize,
    /// Why the replica does not list its clients.
    clients_error: Option<String>,
}

#[derive(Debug, Serialize)]
struct LaneReport {
    serves: Option<u64>,
    settled: Option<u64>,
    /// `SETTLED`, `PENDING` (clients have not answered), `BEHIND` (an earlier publish is served) or `HELD`.
    state: &'static str,
}

impl FleetReport {
    fn of(fleet: &Fleet, clients: &Clients) -> Self {
        let replicas = fleet.replicas.iter();
        let heads = fleet.heads.iter();
        Self {
            lanes: heads
                .map(|(lane, head)| (lane.to_string(), head.seq))
                .collect(),
            replicas: replicas
                .map(|(replica, status)| {
                    let answers = clients.replicas.get(replica);
                    let listed = answers.and_then(|answers| answers.as_ref().ok());
                    let error = answers.and_then(|answers| answers.as_ref().err());
                    ReplicaReport {
                        id: replica.to_string(),
                        build: status.build.clone(),
                        grpc: status.grpc.clone(),
                        http: status.http.clone(),
                        streams: status.streams,
                        in_sync: status.in_sync,
                        nacked: status.nacked,
                        lanes: lanes_of(fleet, replica),
                        missing: listed.map(|answers| answers.missing.clone()),
                        more_missing: listed.map_or(0, |answers| answers.more),
                        clients_error: error.cloned(),
                    }
                })
                .collect(),
            rollbacks: rollbacks::of(fleet).collect(),
            away: clients.away.clone(),
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
