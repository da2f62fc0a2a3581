//! P-13: a resource that every client NACKs.

use std::time::Duration;

use oxds_core::snapshot::Protocol;

use super::holding::Holding;
use super::request;
use super::rig::{Contestant, Rig, wait};
use super::swarm::{Manner, Mood};
use crate::Plan;
use crate::report::{Row, Table, Target};

/// Time that servers are watched after the NACK.
const WATCHED: Duration = Duration::from_secs(1);
/// Changes of other resources meanwhile.
const CHANGES: usize = 10;

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let clients = if plan.smoke { 20 } else { 1_000 };
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let measure = |contestant: Contestant| {
            let sends = wait(measure(contestant, protocol, clients));
            sends.map_err(|error| format!("{}: {error}", contestant.name()))
        };
        let ours = measure(Contestant::Oxds)?;
        for peer in [Contestant::Snapshot, Contestant::Linear] {
            table.row(&Row {
                id: "P-13",
                what: &format!("{protocol:?}, sends per client of the NACKed resource"),
                ours,
                peer: (peer.name(), measure(peer)?),
                target: Target::None,
            });
        }
        table.limit(
            "P-13",
            &format!("{protocol:?}, sends per client"),
            ours,
            1.0,
        );
    }
    Ok(())
}

/// Number of times that each client was sent the NACKed resource, on average.
async fn measure(
    contestant: Contestant,
    protocol: Protocol,
    clients: usize,
) -> Result<f64, String> {
    const CLUSTERS: usize = 100;
    let holding = Holding::Clusters;
    let mut rig = Rig::start(
        contestant,
        holding,
        CLUSTERS,
        Manner::new(holding.resource_type(), protocol),
    )?;
    let first = request::all(&holding.resource_type(), protocol);
    rig.swarm.fill(clients, &first, CLUSTERS).await?;
    rig.swarm.set(Mood {
        nack: true,
        ..Mood::default()
    });
    rig.server.tell("poison")?;
    rig.swarm
        .until(clients as u64, |counted| counted.large)
        .await?;
    for _ in 0..CHANGES {
        rig.server.tell("change")?;
        tokio::time::sleep(WATCHED / CHANGES as u32).await;
    }
    Ok(rig.swarm.mark().large as f64 / clients as f64)
}
