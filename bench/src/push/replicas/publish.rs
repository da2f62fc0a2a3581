//! GB-1, GB-2: from etcd's commit until the client of the last replica has the change.

use std::time::Duration;

use super::etcd::{Etcd, PREFIX};
use super::fleet::{Fleet, Kind, prefix, published};
use crate::Plan;
use crate::report::{Row, Table, Target, percentile_micros};

/// Allowed time beyond the commit, in microseconds.
const MOST_P50: f64 = 2_000.0;
const MOST_P99: f64 = 10_000.0;
/// Allowed time of a large publish, from its first write, in milliseconds.
const MOST_LARGE: f64 = 500.0;

pub(super) async fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let (clusters, rounds, large) = if plan.smoke {
        (1_000, 5, 300)
    } else {
        (100_000, 100, 5_000)
    };
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    if plan.wants("GB-1") {
        let ours = changes(&mut etcd, &mut fleet, Kind::Oxds, rounds).await?;
        let plain = prefix(Kind::Plain);
        etcd.fill_plain(plain, clusters).await?;
        let mut peers = Fleet::start(Kind::Plain, &etcd, plain, clusters).await?;
        let theirs = changes(&mut etcd, &mut peers, Kind::Plain, rounds).await?;
        let parts = [("p50", 0.5, MOST_P50), ("p99", 0.99, MOST_P99)];
        for (name, part, most) in parts {
            if part > 0.9 && rounds < 100 {
                continue;
            }
            let ours = percentile_micros(&ours, part);
            table.row(&Row {
                id: "GB-1",
                what: &format!("last of 3, beyond the commit, {name} (us)"),
                ours,
                peer: ("plain Go", percentile_micros(&theirs, part)),
                target: Target::None,
            });
            let what = format!("one of {clusters}, {name} (us)");
            table.limit("GB-1", &what, ours, most);
        }
    }
    if plan.wants("GB-2") {
        let mut commits = etcd.watch(published(Kind::Oxds)).await?;
        let before = updates(&fleet)?;
        etcd.change(PREFIX, large).await?;
        let last = fleet.until(large).await?;
        let first = commits.recv().await.ok_or("the watch ended")?;
        let took = last.saturating_duration_since(first);
        let what = format!("{large} of {clusters}, first write to last (ms)");
        table.limit("GB-2", &what, took.as_secs_f64() * 1e3, MOST_LARGE);
        // One change set for each replica: no client can have seen a part.
        let more = updates(&fleet)?
            .into_iter()
            .zip(before)
            .map(|(now, then)| now - then);
        let most = more.max().unwrap_or(u64::MAX);
        table.limit("GB-2", "updates of a replica", most as f64, 1.0);
    }
    Ok(())
}

/// Changes one cluster again and again. Returns the sorted times from the commit until the last client had it.
async fn changes(
    etcd: &mut Etcd,
    fleet: &mut Fleet,
    kind: Kind,
    rounds: usize,
) -> Result<Vec<Duration>, String> {
    let prefix = prefix(kind);
    let mut commits = etcd.watch(published(kind)).await?;
    let mut times = Vec::with_capacity(rounds);
    // The first change pays for what stays.
    for round in 0..=rounds {
        match kind {
            Kind::Oxds => etcd.change(prefix, 1).await?,
            Kind::Plain => etcd.change_plain(prefix).await?,
        }
        let last = fleet.until(1).await?;
        let commit = commits.recv().await.ok_or("the watch ended")?;
        if round > 0 {
            times.push(last.saturating_duration_since(commit));
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn updates(fleet: &Fleet) -> Result<Vec<u64>, String> {
    let replicas = fleet.replicas.iter();
    replicas
        .map(|replica| replica.metric("oxds_store_updates_total"))
        .collect()
}
