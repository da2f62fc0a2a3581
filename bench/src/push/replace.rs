//! P-11: a control plane replaces its whole state, and one resource is different.
//!
//! All servers start from the same form: encoded resources, as a store has them (oxds hashes them, the peers decode
//! them first), or messages, as a program makes them (oxds and the peers encode and hash them).

use std::time::{Duration, Instant};

use super::probe::Probe;
use super::rig::{Contestant, address, wait};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::Holding;

/// Milliseconds from the order until the client has it.
const MOST: f64 = 60.0;

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, rounds) = (size.many(), size.rounds);
    for form in ["bytes", "messages"] {
        let measure = |contestant: Contestant| {
            let millis = wait(measure(contestant, form, clusters, rounds));
            millis.map_err(|error| format!("{}: {error}", contestant.name()))
        };
        let ours = measure(Contestant::Oxds)?;
        for peer in [Contestant::Snapshot, Contestant::Linear] {
            table.row(&Row {
                id: "P-11",
                what: &format!("replace {clusters}, from {form}, p50 (ms)"),
                ours,
                peer: (peer.name(), measure(peer)?),
                target: Target::None,
            });
        }
        let what = format!("replace all, from {form}, p50 (ms)");
        table.limit("P-11", &what, ours, MOST);
    }
    Ok(())
}

async fn measure(
    contestant: Contestant,
    form: &str,
    clusters: usize,
    rounds: usize,
) -> Result<f64, String> {
    let mut server = contestant.start(Holding::Clusters, clusters)?;
    let mut probe = Probe::connect(address(&server)).await?;
    probe.sync(clusters).await?;
    let mut took: Vec<Duration> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        server.send_line(&format!("replace {form}"))?;
        let changed = probe.next_change().await?;
        if changed != 1 {
            return Err(format!("{changed} resources for one change"));
        }
        took.push(start.elapsed());
    }
    took.sort_unstable();
    Ok(percentile_micros(&took, 0.5) / 1e3)
}
