//! GB-16: all of etcd is away; in this time one of three replicas is killed, and its clients connect to the others.
//!
//! ```text
//!   etcd is killed ── replicas try to connect: CPU ── GB-4 ── etcd is back ── a publish: clients get nothing else
//! ```

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::clients::Clients;
use super::etcd::{Etcd, PREFIX};
use super::fleet::{Fleet, Kind, Replica};
use crate::plan::{Plan, Size};
use crate::report::Table;

/// Allowed CPU of a replica, in percent of a processor.
const MOST_PERCENT: f64 = 0.5;

pub(crate) async fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, count) = (size.many(), size.clients);
    let away = if plan.smoke {
        size.length
    } else {
        Duration::from_secs(plan.away_seconds)
    };
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    let clients = Clients::of(&fleet.replicas[0], clusters, count).await?;
    let swarms = clients.connect(&fleet.replicas).await?;

    // Replicas have finished the work of their start.
    sleep(away / 6).await;
    let idle = percent(&fleet.replicas, away / 6).await?;
    etcd.members.kill_all();
    let busy = percent(&fleet.replicas, away).await?;
    let seconds = away.as_secs();
    let what = format!("CPU of a replica, etcd {seconds} s away (%)");
    table.limit("GB-16", &what, busy, MOST_PERCENT);
    let failures = fleet.replicas[0].metric("oxds_store_failures_total")?;
    table.note(&format!(
        "GB-16: {idle:.3} % before, with etcd; {failures} connections failed"
    ));

    let returned = clients.lose_one(&mut fleet, swarms).await?;
    returned.print("GB-16", table);

    etcd.restart().await?;
    let start = Instant::now();
    let marks = resources(&returned.swarms);
    // A cluster that no client has requested by name.
    etcd.change_some(PREFIX, clusters - 1..clusters).await?;
    let last = fleet.until(1).await?;
    let again = resources(&returned.swarms) - marks;
    let what = "resources sent again with etcd back";
    table.limit("GB-16", what, again as f64, 0.0);
    table.note(&format!(
        "GB-16: etcd back until the last client has the next publish: {:.1} s",
        last.saturating_duration_since(start).as_secs_f64()
    ));
    Ok(())
}

/// Returns the CPU of the busiest replica while this time passes, in percent of a processor.
async fn percent(replicas: &[Replica], time: Duration) -> Result<f64, String> {
    let cpu = || {
        let all = replicas.iter().map(|replica| replica.part.process_cpu());
        all.collect::<Result<Vec<_>, _>>()
    };
    let (before, start) = (cpu()?, Instant::now());
    sleep(time).await;
    let spent = cpu()?.into_iter().zip(before);
    let most = spent.map(|(now, then)| now - then).max();
    let most = most.ok_or("no replicas")?.as_secs_f64();
    Ok(most / start.elapsed().as_secs_f64() * 100.0)
}

fn resources(swarms: &[super::super::swarm::Swarm]) -> u64 {
    swarms.iter().map(|swarm| swarm.mark().resources).sum()
}
