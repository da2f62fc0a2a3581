//! P-9: continuous changes, to clients a round trip away.
//!
//! The delay is on the side of the answers: a response arrives at once, its acknowledgement leaves 20 ms later. Half of
//! the round trip, which a response would have taken, is added to the measured time.

use std::time::{Duration, Instant};

use oxds_core::snapshot::Protocol;

use super::probe::Probe;
use super::request;
use super::resources;
use super::rig::{Contestant, Rig, address, wait};
use super::swarm::Manner;
use crate::memory::mib;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::Holding;

const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Changes per second.
const RATE: usize = 1_000;

struct Measurement {
    /// Age of the oldest change that a client lacked, when it got it; sorted.
    staleness: Vec<Duration>,
    changes_per_second: f64,
    /// Resident memory after a quarter of the time, and at the end.
    resident: [u64; 2],
    cpu_share: f64,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clients, length) = (size.clients, size.length);
    let measure = |contestant: Contestant| {
        let shown = wait(measure(contestant, clients, length));
        shown.map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds)?;
    let p99 = |shown: &Measurement| percentile_micros(&shown.staleness, 0.99) / 1e3;
    for peer in [Contestant::Snapshot, Contestant::Linear] {
        let theirs = measure(peer)?;
        let mut row = |what, ours, theirs| {
            table.row(&Row {
                id: "P-9",
                what,
                ours,
                peer: (peer.name(), theirs),
                target: Target::None,
            });
        };
        row("staleness, p99 (ms)", p99(&ours), p99(&theirs));
        row(
            "changes per second",
            ours.changes_per_second,
            theirs.changes_per_second,
        );
        row(
            "server CPU, share of a processor",
            ours.cpu_share,
            theirs.cpu_share,
        );
    }
    let most = 2.0 * ROUND_TRIP.as_secs_f64() * 1e3;
    table.limit("P-9", "staleness, p99 (ms)", p99(&ours), most);
    let [early, late] = ours.resident.map(mib);
    table.note(&format!(
        "P-9: {early:.1} MiB after a quarter of the time, {late:.1} MiB at the end"
    ));
    table.limit("P-9", "memory, end / first quarter", late / early, 1.1);
    Ok(())
}

async fn measure(
    contestant: Contestant,
    clients: usize,
    length: Duration,
) -> Result<Measurement, String> {
    const CLUSTERS: usize = 1_000;
    let holding = Holding::Clusters;
    let manner = Manner {
        answer_after: ROUND_TRIP,
        ..Manner::new(holding.resource_type(), Protocol::Delta)
    };
    let mut rig = Rig::start(contestant, holding, CLUSTERS, manner)?;
    let first = request::all(&holding.resource_type(), Protocol::Delta);
    rig.swarm.fill(clients, &first, CLUSTERS).await?;
    let mut probe = Probe::connect(address(&rig.server)).await?;
    probe.sync(CLUSTERS).await?;

    let cpu = rig.server.cpu_micros()?;
    let start = Instant::now();
    rig.server
        .send_line(&format!("storm {RATE} {}", length.as_millis()))?;
    let mut staleness = Vec::new();
    let mut early = None;
    while start.elapsed() < length {
        let response = probe.next().await?;
        staleness.push(age(&response)? + ROUND_TRIP / 2);
        tokio::time::sleep(ROUND_TRIP).await;
        probe.acknowledge(response)?;
        if early.is_none() && start.elapsed() > length / 4 {
            early = Some(rig.server.memory()?.resident);
        }
    }
    let late = rig.server.memory()?.resident;
    let changes = rig
        .server
        .answer()?
        .parse::<f64>()
        .map_err(|error| error.to_string())?;
    let took = start.elapsed().as_secs_f64();
    staleness.sort_unstable();
    Ok(Measurement {
        staleness,
        changes_per_second: changes / took,
        resident: [early.unwrap_or(late), late],
        cpu_share: (rig.server.cpu_micros()? - cpu) as f64 / 1e6 / took,
    })
}

/// Age of the oldest change among these clusters. Within two round trips no cluster changes twice, so this is the
/// oldest change that the client lacked.
fn age(response: &oxds_types::discovery::DeltaDiscoveryResponse) -> Result<Duration, String> {
    let bodies = response
        .resources
        .iter()
        .filter_map(|resource| resource.resource.as_ref());
    let stamps: Vec<u64> = bodies
        .map(|any| resources::stamp(&any.value))
        .collect::<Result<_, _>>()?;
    let oldest = stamps
        .into_iter()
        .min()
        .ok_or("a response without clusters")?;
    Ok(Duration::from_micros(
        resources::now_micros().saturating_sub(oldest),
    ))
}
