//! P-13: a resource that every client NACKs.
//!
//! The text of the NACK names the resource, or nothing. In the second case the resource changes together with nine
//! valid ones: a server has to find out which of the ten is invalid, and in the meantime the clients should get the
//! others.

use std::time::{Duration, Instant};

use oxds_core::snapshot::Protocol;

use super::request;
use super::rig::{Contestant, Rig, wait};
use super::swarm::{Commands, Manner, Nack};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Holding;

/// Time that servers are watched after the NACK.
const WATCHED: Duration = Duration::from_secs(1);
/// Changes of other resources in this time.
const CHANGES: usize = 10;
/// Resources that change together before a NACK that names none.
const BATCH: usize = 10;
/// The first response, and a round of isolation for each time that ten suspects are halved.
const MOST_UNNAMED: f64 = 5.0;

/// Result of one server.
struct Measurement {
    /// Number of times that each client was sent the NACKed resource, on average.
    sends: f64,
    /// Clients without all of the valid resources of the same change, [`WATCHED`] after the change.
    without: u64,
    /// Time until all clients had accepted them, if they did.
    accepted: Option<Duration>,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let clients = size.clients;
    for nack in [Nack::Named, Nack::Unnamed] {
        for protocol in [Protocol::Delta, Protocol::Sotw] {
            compare(nack, protocol, clients, table)?;
        }
    }
    Ok(())
}

fn compare(
    nack: Nack,
    protocol: Protocol,
    clients: usize,
    table: &mut Table,
) -> Result<(), String> {
    let measure = |contestant: Contestant| {
        let shown = wait(measure(contestant, protocol, nack, clients));
        shown.map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds)?;
    let is_named = nack == Nack::Named;
    for peer in [Contestant::Snapshot, Contestant::Linear] {
        let theirs = measure(peer)?;
        let mut row = |what: &str, ours: f64, theirs: f64| {
            table.row(&Row {
                id: "P-13",
                what: &format!("{protocol:?}, {nack:?}, {what}"),
                ours,
                peer: (peer.name(), theirs),
                target: Target::None,
            });
        };
        row("sends per client", ours.sends, theirs.sends);
        if !is_named {
            let (ours, theirs) = (ours.without as f64, theirs.without as f64);
            row("clients without the rest", ours, theirs);
        }
    }
    let at = format!("{protocol:?}, {nack:?}");
    let most = if is_named { 1.0 } else { MOST_UNNAMED };
    let what = format!("{at}, sends per client");
    table.limit("P-13", &what, ours.sends, most);
    if !is_named {
        let what = format!("{at}, clients without the rest");
        table.limit("P-13", &what, ours.without as f64, 0.0);
    }
    if let Some(accepted) = ours.accepted.filter(|_| !is_named) {
        let millis = accepted.as_secs_f64() * 1e3;
        table.note(&format!(
            "P-13: {at}: oxds: all have the rest after {millis:.0} ms"
        ));
    }
    Ok(())
}

async fn measure(
    contestant: Contestant,
    protocol: Protocol,
    nack: Nack,
    clients: usize,
) -> Result<Measurement, String> {
    const CLUSTERS: usize = 100;
    let batch = if nack == Nack::Named { 1 } else { BATCH };
    let holding = Holding::Clusters;
    let mut rig = Rig::start(
        contestant,
        holding,
        CLUSTERS,
        Manner::new(holding.resource_type(), protocol),
    )?;
    let first = request::all(&holding.resource_type(), protocol);
    rig.swarm.fill(clients, &first, CLUSTERS).await?;
    rig.swarm.set(Commands {
        nack,
        marked: batch - 1,
        ..Commands::default()
    });
    let start = Instant::now();
    rig.server.send_line(&format!("poison {batch}"))?;
    let all = clients as u64;
    rig.swarm.until(all, |counted| counted.large).await?;
    let left = WATCHED.saturating_sub(start.elapsed());
    // Nothing to wait for if nothing changed beside the invalid resource.
    let accepted = batch > 1
        && rig
            .swarm
            .reaches(left, all, |counted| counted.complete)
            .await;
    let accepted = accepted.then(|| start.elapsed());
    let without = all - rig.swarm.mark().complete;
    for _ in 0..CHANGES {
        rig.server.send_line("change")?;
        tokio::time::sleep(WATCHED / CHANGES as u32).await;
    }
    Ok(Measurement {
        sends: rig.swarm.mark().large as f64 / clients as f64,
        without,
        accepted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_unnamed_nack_is_allowed_a_round_per_halving() {
        let halvings = (BATCH as f64).log2().ceil();
        assert_eq!(MOST_UNNAMED, 1.0 + halvings);
    }
}
