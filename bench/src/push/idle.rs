//! P-8: memory of a client that has everything and waits.

use oxds_core::snapshot::Protocol;

use super::request;
use super::rig::{Contestant, Rig, wait};
use super::swarm::Manner;
use crate::memory::Footprint;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Holding;

/// Bytes per session, its connection included.
pub(super) const SESSION_BYTES: usize = 32 * 1024;

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    // A session takes a peer a second at the most clusters.
    let (sizes, sessions) = (size.resources, size.clients);
    let mut ours = [0.0; 2];
    for (&clusters, ours) in sizes.iter().zip(&mut ours) {
        let measure = |contestant: Contestant| {
            let shown = wait(measure(contestant, clusters, sessions));
            shown.map_err(|error| format!("{}, {clusters} clusters: {error}", contestant.name()))
        };
        let per_session = |bytes: u64| bytes as f64 / sessions as f64;
        *ours = per_session(measure(Contestant::Oxds)?.resident);
        let live = per_session(measure(Contestant::Counted)?.live()?);
        for peer in [Contestant::Snapshot, Contestant::Linear] {
            let theirs = measure(peer)?;
            let mut row = |what: String, ours: f64, theirs: u64| {
                table.row(&Row {
                    id: "P-8",
                    what: &what,
                    ours,
                    peer: (peer.name(), per_session(theirs)),
                    target: Target::None,
                });
            };
            let at = format!("per session, {clusters} clusters");
            row(format!("bytes {at}"), *ours, theirs.resident);
            row(format!("live heap {at}"), live, theirs.live()?);
        }
    }
    let most = SESSION_BYTES as f64;
    table.limit("P-8", "bytes per session, fewest clusters", ours[0], most);
    table.limit("P-8", "bytes per session, most clusters", ours[1], most);
    Ok(())
}

/// Memory that `sessions` add to a server that has as many already. One-time memory of the first ones (encoded
/// bodies, arenas of the allocator) does not count.
async fn measure(
    contestant: Contestant,
    clusters: usize,
    sessions: usize,
) -> Result<Footprint, String> {
    let holding = Holding::Clusters;
    let manner = Manner::new(holding.resource_type(), Protocol::Delta);
    let mut rig = Rig::start(contestant, holding, clusters, manner)?;
    let first = request::all(&holding.resource_type(), Protocol::Delta);
    rig.swarm.fill(sessions, &first, clusters).await?;
    let before = rig.server.footprint()?;
    rig.swarm.fill(sessions, &first, clusters).await?;
    Ok(rig.server.footprint()?.since(before))
}
