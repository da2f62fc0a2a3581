//! GB-9: CPU of a replica per publish of one cluster, beyond its CPU without publishes, by the number of clusters.
//!
//! ```text
//!   warm-up ──▶ no publishes: CPU per second ──▶ publishes at a pace, then a pause for the last status keys
//!                        │                                        │
//!                        └── of the same time, subtracted ◀───────┘ CPU, divided by the number of publishes
//! ```
//!
//! Everything that a publish causes in a replica is counted: its status key, and the status keys of the others that it
//! reads. The server whose program changes its cache has the same pace: what is not in the caches of the processor
//! costs both more.

use std::time::{Duration, Instant};

use tokio::time::{interval, sleep};

use super::super::probe::Probe;
use super::super::rig::{Contestant, address};
use super::etcd::Etcd;
use super::fleet::{Fleet, Kind};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::{Holding, Part};

/// Allowed CPU relative to a server whose program changes its cache.
const MOST: f64 = 1.5;
/// Allowed growth from the fewest clusters to the most.
const MOST_GROWTH: f64 = 1.5;
/// Time between two publishes.
const PACE: Duration = Duration::from_millis(50);
/// Time after the last publish: status keys are written at most 500 ms after one another.
const PAUSE: Duration = Duration::from_millis(1_500);

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (sizes, times) = (size.resources, Times::of(size));
    let mut etcd = Etcd::start().await?;
    let mut all = Vec::new();
    for &clusters in sizes {
        let prefix = format!("/m{clusters}/");
        etcd.fill(&prefix, clusters).await?;
        let mut fleet = Fleet::start(Kind::Oxds, &etcd, &prefix, clusters).await?;
        let mut writer = etcd.quick_writer(&prefix, clusters).await?;
        let mut change = async |fleet: &mut Fleet| {
            writer.change().await?;
            fleet.until(1).await.map(drop)
        };
        let ours = times
            .measure(&mut fleet, |fleet| &fleet.replicas[0].part, &mut change)
            .await?;
        drop(fleet);
        let peer = apply(clusters, times).await?;
        table.row(&Row {
            id: "GB-9",
            what: &format!("CPU per publish, {clusters} (us)"),
            ours: ours.per_change,
            peer: ("Cache::apply", peer.per_change),
            target: Target::AtMost(MOST),
        });
        table.row(&Row {
            id: "GB-9",
            what: &format!("CPU per second without publishes, {clusters} (us)"),
            ours: ours.per_idle_second,
            peer: ("Cache::apply", peer.per_idle_second),
            target: Target::None,
        });
        all.push(ours.per_change);
    }
    let growth = all
        .last()
        .zip(all.first())
        .map(|(last, first)| last / first);
    let growth = growth.ok_or("no sizes")?;
    table.limit("GB-9", "growth of CPU per publish", growth, MOST_GROWTH);
    Ok(())
}

/// Lengths of a measurement.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Changes before: the first ones pay for what stays.
    warm_up: usize,
    idle: Duration,
    rounds: usize,
}

/// CPU of a server, in microseconds.
struct Cost {
    per_idle_second: f64,
    /// Beyond that of an idle server in the same time.
    per_change: f64,
}

impl Times {
    fn of(size: Size) -> Self {
        Self {
            warm_up: size.steps,
            idle: size.length,
            rounds: size.rounds,
        }
    }

    async fn measure<S>(
        self,
        subject: &mut S,
        part: impl Fn(&S) -> &Part,
        change: &mut impl AsyncFnMut(&mut S) -> Result<(), String>,
    ) -> Result<Cost, String> {
        let mut next = interval(PACE);
        for _ in 0..self.warm_up {
            next.tick().await;
            change(subject).await?;
        }
        sleep(PAUSE).await;
        let (before, start) = (part(subject).cpu()?, Instant::now());
        sleep(self.idle).await;
        let idle = part(subject).cpu()? - before;
        let idle = idle.as_secs_f64() / start.elapsed().as_secs_f64();

        let (before, start) = (part(subject).cpu()?, Instant::now());
        let mut next = interval(PACE);
        for _ in 0..self.rounds {
            next.tick().await;
            change(subject).await?;
        }
        sleep(PAUSE).await;
        let spent = part(subject).cpu()? - before;
        let beyond = spent.as_secs_f64() - idle * start.elapsed().as_secs_f64();
        Ok(Cost {
            per_idle_second: idle * 1e6,
            per_change: beyond * 1e6 / self.rounds as f64,
        })
    }
}

/// The same of a server with one client whose program changes the cache.
async fn apply(clusters: usize, times: Times) -> Result<Cost, String> {
    let server = Contestant::Oxds.start(Holding::Clusters, clusters)?;
    let mut probe = Probe::connect(address(&server)).await?;
    probe.sync(clusters).await?;
    let mut subject = (server, probe);
    let mut change = async |(server, probe): &mut (Part, Probe)| {
        server.send_line("change")?;
        probe.next_change().await.map(drop)
    };
    times
        .measure(&mut subject, |(server, _)| server, &mut change)
        .await
}
