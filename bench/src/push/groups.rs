//! P-12: many node groups that see nearly the same resources.

use oxds_core::snapshot::Protocol;

use super::idle::SESSION_BYTES;
use super::request;
use super::rig::{Contestant, address, wait};
use super::server::{OWN, node_of};
use super::swarm::{Manner, Swarm};
use crate::memory::{Footprint, mib};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Holding;

/// Allowed memory of a group's resource beside its bytes.
const PAIR_BYTES: usize = 50;

/// Memory of a server, above that of an empty one.
struct Measurement {
    /// Without clients.
    loaded: Footprint,
    /// With one client in each group, in sync.
    watched: Footprint,
    /// Bytes that one group sees, as they are sent.
    seen: u64,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (groups, resources) = (size.clients, size.many());
    let measure = |contestant: Contestant| {
        let shown = wait(measure(contestant, groups, resources));
        shown.map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds)?;
    let counted = measure(Contestant::Counted)?;
    let peer = Contestant::Snapshot;
    let theirs = measure(peer)?;
    let mut row = |what: String, ours, theirs| {
        table.row(&Row {
            id: "P-12",
            what: &what,
            ours: mib(ours),
            peer: (peer.name(), mib(theirs)),
            target: Target::None,
        });
    };
    let loaded = [ours.loaded, counted.loaded, theirs.loaded];
    let watched = [ours.watched, counted.watched, theirs.watched];
    for (suffix, [ours, counted, theirs]) in [("", loaded), (", a client each", watched)] {
        let what = format!("{groups} groups{suffix}");
        let (resident, live) = (theirs.resident, theirs.live()?);
        row(format!("{what}, memory (MiB)"), ours.resident, resident);
        row(format!("{what}, live heap (MiB)"), counted.live()?, live);
    }

    let own = ours.seen / OWN as u64;
    let unique = ours.seen - own + own * groups as u64;
    let most = unique * 3 / 2 + (PAIR_BYTES * groups * resources) as u64;
    let clients = (SESSION_BYTES * groups) as u64;
    table.limit("P-12", "memory (MiB)", mib(ours.loaded.resident), mib(most));
    table.limit(
        "P-12",
        "memory, a client each (MiB)",
        mib(ours.watched.resident),
        mib(most + clients),
    );
    Ok(())
}

async fn measure(
    contestant: Contestant,
    groups: usize,
    resources: usize,
) -> Result<Measurement, String> {
    let holding = Holding::Clusters;
    let empty = contestant.empty()?;
    let mut server = contestant.start_grouped(holding, resources, groups)?;
    let loaded = server.footprint()?.since(empty);
    let manner = Manner::new(holding.resource_type(), Protocol::Delta);
    let mut swarm = Swarm::new(address(&server), manner)?;
    for group in 0..groups {
        let first = request::all_as(&node_of(group), &holding.resource_type(), Protocol::Delta);
        swarm.fill(1, &first, resources).await?;
    }
    Ok(Measurement {
        loaded,
        watched: server.footprint()?.since(empty),
        seen: swarm.mark().bytes / groups as u64,
    })
}
