//! P-8: memory of a client that has everything and waits.

use oxds_core::snapshot::Protocol;

use super::holding::Holding;
use super::request;
use super::rig::{Contestant, Rig, wait};
use super::swarm::Manner;
use crate::Plan;
use crate::report::{Row, Table, Target};

/// Bytes per session, its connection included.
pub(super) const SESSION_BYTES: usize = 32 * 1024;

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let (sizes, sessions) = match plan.smoke {
        true => ([100, 1_000], 20),
        false => ([1_000, 100_000], 100),
    };
    // Sessions of peers are much larger, so fewer show the size, and each takes a peer a second.
    let few = sessions.min(10);
    let mut ours = [0.0; 2];
    for (clusters, ours) in sizes.into_iter().zip(&mut ours) {
        let measure = |contestant: Contestant, sessions| {
            let bytes = wait(measure(contestant, clusters, sessions));
            bytes.map_err(|error| format!("{}, {clusters} clusters: {error}", contestant.name()))
        };
        *ours = measure(Contestant::Oxds, sessions)?;
        for peer in [Contestant::Snapshot, Contestant::Linear] {
            table.row(&Row {
                id: "P-8",
                what: &format!("bytes per session, {clusters} clusters"),
                ours: *ours,
                peer: (peer.name(), measure(peer, few)?),
                target: Target::None,
            });
        }
    }
    let most = SESSION_BYTES as f64;
    table.limit("P-8", "bytes per session, fewest clusters", ours[0], most);
    table.limit("P-8", "bytes per session, most clusters", ours[1], most);
    Ok(())
}

/// Memory that each of `sessions` adds to a server that has as many already. One-time memory of the first ones (encoded
/// bodies, arenas of the allocator) does not count.
async fn measure(contestant: Contestant, clusters: usize, sessions: usize) -> Result<f64, String> {
    let holding = Holding::Clusters;
    let manner = Manner::new(holding.resource_type(), Protocol::Delta);
    let mut rig = Rig::start(contestant, holding, clusters, manner)?;
    let first = request::all(&holding.resource_type(), Protocol::Delta);
    rig.swarm.fill(sessions, &first, clusters).await?;
    let before = rig.server.memory()?.resident;
    rig.swarm.fill(sessions, &first, clusters).await?;
    let after = rig.server.memory()?.resident;
    Ok((after as f64 - before as f64) / sessions as f64)
}
