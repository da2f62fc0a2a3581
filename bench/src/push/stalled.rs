//! P-10: one client in a hundred stops reading.

use std::time::{Duration, Instant};

use oxds_core::snapshot::Protocol;

use super::request;
use super::rig::{Contestant, Rig, address, wait};
use super::swarm::{Commands, Manner, Swarm};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::Holding;

const CLUSTERS: usize = 1_000;

/// Allowed memory of a stalled client: a cursor, and a response that it does not read.
const STALLED_BYTES: f64 = 64.0 * 1024.0;

/// Latencies of every client that reads, sorted, while all read and while some do not.
struct Measurement {
    all_read: Vec<Duration>,
    some_stalled: Vec<Duration>,
    /// Memory of each stalled client over many changes, in bytes.
    grown: f64,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clients, rounds) = (size.clients, size.rounds);
    let measure = |contestant: Contestant| {
        let shown = wait(measure(contestant, clients, rounds));
        shown.map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds)?;
    let p99 = |latencies: &[Duration]| percentile_micros(latencies, 0.99);
    // A change takes the snapshot cache longer than this scenario lasts.
    let peer = Contestant::Linear;
    let theirs = measure(peer)?;
    let mut row = |what, ours, theirs| {
        table.row(&Row {
            id: "P-10",
            what,
            ours,
            peer: (peer.name(), theirs),
            target: Target::None,
        });
    };
    row(
        "p99, all read (us)",
        p99(&ours.all_read),
        p99(&theirs.all_read),
    );
    let what = "p99, one in a hundred stalls (us)";
    row(what, p99(&ours.some_stalled), p99(&theirs.some_stalled));
    let ratio = p99(&ours.some_stalled) / p99(&ours.all_read);
    table.limit("P-10", "p99 of the rest, stalled / all read", ratio, 1.05);
    table.limit(
        "P-10",
        "bytes per stalled client",
        ours.grown,
        STALLED_BYTES,
    );
    Ok(())
}

async fn measure(
    contestant: Contestant,
    clients: usize,
    rounds: usize,
) -> Result<Measurement, String> {
    let holding = Holding::Clusters;
    let manner = Manner::new(holding.resource_type(), Protocol::Delta);
    let mut rig = Rig::start(contestant, holding, CLUSTERS, manner.clone())?;
    let first = request::all(&holding.resource_type(), Protocol::Delta);
    let mut lazy = Swarm::new(address(&rig.server), manner)?;
    lazy.fill(clients / 100, &first, CLUSTERS).await?;
    rig.swarm
        .fill(clients - lazy.streams(), &first, CLUSTERS)
        .await?;
    changes(&mut rig, 10).await?;

    let (mut all_read, mut some_stalled) = (Vec::new(), Vec::new());
    // In turns, so that other load of the machine affects both.
    for _ in 0..rounds {
        let before = lazy.mark();
        all_read.extend(changes(&mut rig, 20).await?);
        lazy.until(before.messages + lazy.streams() as u64, |counted| {
            counted.messages
        })
        .await?;
        lazy.set(Commands {
            stalled: true,
            ..Commands::default()
        });
        some_stalled.extend(changes(&mut rig, 20).await?);
        lazy.set(Commands::default());
    }
    lazy.set(Commands {
        stalled: true,
        ..Commands::default()
    });
    changes(&mut rig, 10).await?;
    let before = rig.server.memory()?.resident;
    changes(&mut rig, 20 * rounds).await?;
    let grown = rig.server.memory()?.resident.saturating_sub(before);
    all_read.sort_unstable();
    some_stalled.sort_unstable();
    Ok(Measurement {
        all_read,
        some_stalled,
        grown: grown as f64 / lazy.streams() as f64,
    })
}

/// Changes clusters one after the other, and returns the delay at each reading client.
async fn changes(rig: &mut Rig, times: usize) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(times * rig.swarm.streams());
    for _ in 0..times {
        rig.swarm.arrivals();
        let start = Instant::now();
        rig.change(rig.swarm.streams()).await?;
        let arrivals = rig.swarm.arrivals();
        latencies.extend(arrivals.iter().map(|arrival| arrival.duration_since(start)));
    }
    Ok(latencies)
}
