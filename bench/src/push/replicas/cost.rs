//! GB-9: CPU of a replica per publish of one cluster, by the number of clusters.

use std::time::Duration;

use tokio::time::interval;

use super::super::holding::Holding;
use super::super::probe::Probe;
use super::super::rig::{Contestant, address};
use super::etcd::Etcd;
use super::fleet::{Fleet, Kind};
use crate::Plan;
use crate::report::{Row, Table, Target};

/// Allowed CPU relative to a server whose program changes its cache.
const MOST: f64 = 1.5;
/// Allowed growth from the fewest clusters to the most.
const MOST_GROWTH: f64 = 1.5;

pub(super) async fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    // A publish of 100,000 clusters takes its writer a second. Replicas also work between publishes, and tell their status a moment
    // after one, so publishes of all sizes have the same pace.
    let (sizes, rounds, pace): (&[usize], _, _) = if plan.smoke {
        (&[100, 1_000], 5, Duration::from_millis(200))
    } else {
        (&[1_000, 10_000, 100_000], 30, Duration::from_millis(1_500))
    };
    let mut etcd = Etcd::start().await?;
    let mut all = Vec::new();
    for &clusters in sizes {
        let prefix = format!("/m{clusters}/");
        etcd.fill(&prefix, clusters).await?;
        let mut fleet = Fleet::start(Kind::Oxds, &etcd, &prefix, clusters).await?;
        // The first changes pay for what stays.
        for _ in 0..3 {
            etcd.change(&prefix, 1).await?;
            fleet.until(1).await?;
        }
        let before = fleet.replicas[0].part.cpu()?;
        let mut next = interval(pace);
        for _ in 0..rounds {
            next.tick().await;
            etcd.change(&prefix, 1).await?;
            fleet.until(1).await?;
        }
        next.tick().await;
        let spent = fleet.replicas[0].part.cpu()? - before;
        let ours = spent.as_secs_f64() * 1e6 / rounds as f64;
        table.row(&Row {
            id: "GB-9",
            what: &format!("CPU per publish, {clusters} (us)"),
            ours,
            peer: ("Cache::apply", apply(clusters, rounds).await?),
            target: Target::AtMost(MOST),
        });
        all.push(ours);
    }
    let growth = all
        .last()
        .zip(all.first())
        .map(|(last, first)| last / first);
    let growth = growth.ok_or("no sizes")?;
    table.limit("GB-9", "growth of CPU per publish", growth, MOST_GROWTH);
    Ok(())
}

/// CPU per change of a server with one client whose program changes the cache, in microseconds.
async fn apply(clusters: usize, rounds: usize) -> Result<f64, String> {
    let mut server = Contestant::Oxds.start(Holding::Clusters, clusters)?;
    let mut probe = Probe::connect(address(&server)).await?;
    probe.sync(clusters).await?;
    let mut before = Duration::ZERO;
    for round in 0..rounds + 3 {
        if round == 3 {
            before = server.cpu()?;
        }
        server.tell("change")?;
        probe.next_change().await?;
    }
    let spent = server.cpu()? - before;
    Ok(spent.as_secs_f64() * 1e6 / rounds as f64)
}
