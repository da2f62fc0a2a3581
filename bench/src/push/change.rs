//! P-1: one of M clusters changes, and one wildcard delta client gets it.
//!
//! Both servers are processes that change a cluster for each line they read; the client writes the line and times until
//! it has the response. The cost must not grow with M, so the table has a line for 1,000, 10,000 and 100,000 clusters,
//! and one for the growth from the first to the last. Peers: go-control-plane's snapshot cache and its linear cache.
//!
//! A peer whose change takes more than a second would take a quarter of an hour at the last size: a measurement ends
//! after [`ENOUGH`], and below a hundred changes it has no p99.

use std::time::{Duration, Instant};

use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::{Holding, Part};

use super::probe::Probe;
use super::rig::{Contestant, address, wait};

/// Maximum duration of the measurement of one server at one size.
const ENOUGH: Duration = Duration::from_secs(15);

/// Result of a server at one size.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    p50_micros: f64,
    /// `None` after too few changes.
    p99_micros: Option<f64>,
    cpu_micros_per_change: f64,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (sizes, changes) = (size.resources, size.steps);
    let mut all = Vec::new();
    for contestant in Contestant::ALL {
        let mut shown = Vec::new();
        for &clusters in sizes {
            shown.push(measure(contestant, clusters, changes)?);
        }
        all.push(shown);
    }
    print(table, sizes, &all);
    Ok(())
}

fn measure(contestant: Contestant, clusters: usize, changes: usize) -> Result<Measurement, String> {
    let mut server = contestant.start(Holding::Clusters, clusters)?;
    let fail = |error: String| format!("{} with {clusters} clusters: {error}", contestant.name());
    wait(async {
        let mut probe = Probe::connect(address(&server)).await.map_err(fail)?;
        probe.sync(clusters).await.map_err(fail)?;
        // The first changes pay for caches and allocations that stay.
        for _ in 0..(changes / 10).min(10) {
            change(&mut server, &mut probe).await.map_err(fail)?;
        }
        let mut latencies: Vec<Duration> = Vec::with_capacity(changes);
        let cpu_before = server.cpu_micros()?;
        let end = Instant::now() + ENOUGH;
        while latencies.len() < changes && Instant::now() < end {
            latencies.push(change(&mut server, &mut probe).await.map_err(fail)?);
        }
        let cpu = server.cpu_micros()? - cpu_before;
        latencies.sort_unstable();
        Ok(Measurement {
            p50_micros: percentile_micros(&latencies, 0.5),
            p99_micros: (latencies.len() >= 100).then(|| percentile_micros(&latencies, 0.99)),
            cpu_micros_per_change: cpu as f64 / latencies.len() as f64,
        })
    })
}

/// Changes a cluster, and returns the time until the probe had it.
async fn change(server: &mut Part, probe: &mut Probe) -> Result<Duration, String> {
    let start = Instant::now();
    server.send_line("change")?;
    probe.next_change().await?;
    Ok(start.elapsed())
}

fn print(table: &mut Table, sizes: &[usize], all: &[Vec<Measurement>]) {
    let Some((ours, peers)) = all.split_first() else {
        return;
    };
    for (peer, shown) in Contestant::ALL.iter().skip(1).zip(peers) {
        for (index, clusters) in sizes.iter().enumerate() {
            let mut row = |what: String, figure: fn(&Measurement) -> Option<f64>| {
                let (Some(ours), Some(theirs)) = (figure(&ours[index]), figure(&shown[index]))
                else {
                    return;
                };
                table.row(&Row {
                    id: "P-1",
                    what: &what,
                    ours,
                    peer: (peer.name(), theirs),
                    target: Target::None,
                });
            };
            row(format!("p50, {clusters} clusters (us)"), |s| {
                Some(s.p50_micros)
            });
            row(format!("p99, {clusters} clusters (us)"), |s| s.p99_micros);
            row(format!("server CPU per change, {clusters} (us)"), |s| {
                Some(s.cpu_micros_per_change)
            });
        }
    }
    let (first, last) = (&ours[0], &ours[ours.len() - 1]);
    table.limit(
        "P-1",
        "p50 at the most clusters (us)",
        last.p50_micros,
        200.0,
    );
    if let Some(p99) = last.p99_micros {
        table.limit("P-1", "p99 at the most clusters (us)", p99, 1000.0);
    }
    let growth = last.cpu_micros_per_change / first.cpu_micros_per_change;
    table.limit(
        "P-1",
        "growth of CPU per change, fewest to most",
        growth,
        1.5,
    );
}
