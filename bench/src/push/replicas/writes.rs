//! GB-7: transactions in etcd that replicas cause: idle, at a publish per second, and at ten.
//!
//! A publish of one cluster is one transaction. All others are the replicas', because nothing else writes. Renewals of
//! leases are no transactions.

use std::time::{Duration, Instant};

use tokio::time::{interval, sleep};

use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Fleet, Kind};
use crate::plan::{Plan, Size};
use crate::report::Table;

/// Allowed transactions per second and replica under publishes.
const MOST_PER_SECOND: f64 = 2.0;
/// Allowed transactions per publish and replica.
const MOST_PER_PUBLISH: f64 = 2.0;
/// Publishes before the rate is measured.
const WARM_UP: usize = 2;
/// Clients of a replica: the probe.
const STREAMS: usize = 1;

/// Writes under publishes.
struct Written {
    per_publish: f64,
    per_second: f64,
}

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, idle, slow, fast) = (size.many(), size.length, size.rounds, size.steps);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    etcd.settled(PREFIX, STREAMS).await?;
    let before = etcd.revision().await?;
    sleep(idle).await;
    let writes = (etcd.revision().await? - before) as f64 / idle.as_secs_f64();
    table.limit("GB-7", "writes per second, idle", writes, 0.0);

    let pace = Duration::from_secs(1);
    let shown = publishes(&mut etcd, &mut fleet, slow, pace).await?;
    let what = "per publish and replica, 1 publish/s";
    table.limit("GB-7", what, shown.per_publish, MOST_PER_PUBLISH);
    let shown = publishes(&mut etcd, &mut fleet, fast, pace / 10).await?;
    let what = "per second and replica, 10 publishes/s";
    table.limit("GB-7", what, shown.per_second, MOST_PER_SECOND);
    Ok(())
}

/// Publishes one cluster again and again, until replicas have nothing left to write.
async fn publishes(
    etcd: &mut Etcd,
    fleet: &mut Fleet,
    rounds: usize,
    pace: Duration,
) -> Result<Written, String> {
    let before = etcd.revision().await?;
    let mut next = interval(pace);
    let mut warm = (before, Instant::now());
    for round in 0..rounds {
        next.tick().await;
        // The first write comes at once, and the later ones at a pace: the rate is that of the pace.
        if round == WARM_UP {
            warm = (etcd.revision().await?, Instant::now());
        }
        etcd.change(PREFIX, 1).await?;
        fleet.until(1).await?;
    }
    next.tick().await;
    let now = etcd.revision().await?;
    let of_one =
        |revisions: i64, rounds: usize| (revisions - rounds as i64) as f64 / REPLICAS as f64;
    let per_second = of_one(now - warm.0, rounds - WARM_UP) / warm.1.elapsed().as_secs_f64();
    etcd.settled(PREFIX, STREAMS).await?;
    let all = etcd.revision().await? - before;
    Ok(Written {
        per_publish: of_one(all, rounds) / rounds as f64,
        per_second,
    })
}
