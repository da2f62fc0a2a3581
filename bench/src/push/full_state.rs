//! P-5: one change, after which SotW sends all clusters again.

use std::time::Duration;

use oxds_core::snapshot::Protocol;

use super::request;
use super::rig::{Contestant, Rig, wait};
use super::swarm::Manner;
use crate::memory::{Footprint, mib};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Holding;

/// Clients of the comparison; a peer encodes everything for each of them.
const FEW: usize = 10;
/// Clients of the memory target.
const MANY: usize = 100;

/// Result of one push of everything.
struct Measurement {
    took: Duration,
    /// Bytes of one response.
    body: u64,
    /// Growth of the server's resident memory, garbage included.
    rise: u64,
    /// Memory with the clients in sync, without garbage.
    after: Footprint,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let clusters = size.many();
    let measure = |contestant: Contestant, clients| {
        let shown = wait(measure(contestant, clusters, clients));
        shown.map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds, FEW)?;
    let live = measure(Contestant::Counted, FEW)?.after.live()?;
    for peer in [Contestant::Snapshot, Contestant::Linear] {
        let theirs = measure(peer, FEW)?;
        let mut row = |what: String, ours, theirs| {
            table.row(&Row {
                id: "P-5",
                what: &what,
                ours,
                peer: (peer.name(), theirs),
                target: Target::None,
            });
        };
        let seconds = |shown: &Measurement| shown.took.as_secs_f64();
        row(
            format!("full state to {FEW} clients (s)"),
            seconds(&ours),
            seconds(&theirs),
        );
        row(
            format!("memory rises, {FEW} clients (MiB)"),
            mib(ours.rise),
            mib(theirs.rise),
        );
        row(
            format!("memory after it, {FEW} clients (MiB)"),
            mib(ours.after.resident),
            mib(theirs.after.resident),
        );
        row(
            format!("live heap after it, {FEW} clients (MiB)"),
            mib(live),
            mib(theirs.after.live()?),
        );
    }
    let ours = measure(Contestant::Oxds, MANY)?;
    let gigabytes = (ours.body * MANY as u64) as f64 / 1e9;
    table.note(&format!(
        "P-5: {gigabytes:.2} GB to {MANY} clients in {:.2} s",
        ours.took.as_secs_f64()
    ));
    let rise = ours.rise as f64 / ours.body as f64;
    table.limit("P-5", "memory rises, 100 clients (bodies)", rise, 1.2);
    Ok(())
}

async fn measure(
    contestant: Contestant,
    clusters: usize,
    clients: usize,
) -> Result<Measurement, String> {
    let holding = Holding::Clusters;
    let manner = Manner::new(holding.resource_type(), Protocol::Sotw);
    let mut rig = Rig::start(contestant, holding, clusters, manner)?;
    let first = request::all(&holding.resource_type(), Protocol::Sotw);
    rig.swarm.fill(clients, &first, clusters).await?;
    rig.change(clients).await?;
    rig.server.forget_peak()?;
    let (memory, before) = (rig.server.memory()?, rig.swarm.mark());
    let took = rig.change(clients).await?;
    let bytes = rig.swarm.mark().bytes - before.bytes;
    Ok(Measurement {
        took,
        body: bytes / clients as u64,
        rise: rig.server.memory()?.peak.saturating_sub(memory.resident),
        after: rig.server.footprint()?,
    })
}
