//! GB-12: a replica is cut off from etcd, and etcd discards its history in this time: time until the replica serves the
//! missed publishes.
//!
//! ```text
//!   cut off ── 50 publishes of a cluster each ── compaction ── connected: reads everything ── its clients have the 50, and no others
//! ```

use std::ops::RangeInclusive;

use oxds_core::snapshot::Protocol;

use super::super::request;
use super::super::resources::resource_name;
use super::super::swarm::{Manner, Swarm};
use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Fleet, Replica, connect};
use crate::plan::{Plan, Size};
use crate::proxy::Proxy;
use crate::report::{Row, Table, Target, median, percentile_micros};
use crate::roles::Holding;

/// Publishes that the replica misses; each changes another cluster.
const CHANGES: usize = 50;
/// Allowed time, in milliseconds.
const MOST_MILLIS: f64 = 1_300.0;

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, rounds, clients) = (size.many(), size.rounds, size.clients);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let first = etcd.members.urls().remove(0);
    let proxy = Proxy::start(&[first.trim_start_matches("http://")])?;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        let urls = match number {
            0 => format!("http://{}", proxy.address()),
            _ => etcd.urls.clone(),
        };
        replicas.push(Replica::oxds(&urls, PREFIX, &format!("r{number}"))?);
    }
    let mut fleet = Fleet::of(replicas, clusters).await?;
    // The writer's first cluster is the second one.
    let names = 1..=CHANGES * rounds;
    let swarms = swarms(&fleet.replicas, names, clients).await?;
    let swarm = &swarms[0];
    // The last report of a replica that is cut off stays until its lease ends. If it has few streams, the other
    // replicas ask their clients to move.
    etcd.settled(PREFIX, clients + 1).await?;
    let mut writer = etcd.quick_writer(PREFIX, clusters).await?;
    let resources = swarm.mark().resources;
    let (mut times, mut reads_alone, mut expected) = (Vec::new(), Vec::new(), resources);
    for _ in 0..rounds {
        let reads = fleet.replicas[0].metric("oxds_store_reads_total")?;
        proxy.cut();
        let is_away = |replica: &Replica| Ok(replica.metric("oxds_store_connected")? == 0);
        fleet.replicas[0].until("cut off", is_away).await?;
        for _ in 0..CHANGES {
            writer.change().await?;
        }
        etcd.compact().await?;
        proxy.restore();
        let arrivals = fleet.arrivals(CHANGES).await?;
        let connected = proxy.first().ok_or("the replica has not connected")?;
        times.push(arrivals[0].saturating_duration_since(connected));
        expected += (CHANGES * clients) as u64;
        swarm.until(expected, |counted| counted.resources).await?;
        let again = fleet.replicas[0].metric("oxds_store_reads_total")? - reads;
        if again != 1 {
            return Err(format!("{again} reads of the store, expected one"));
        }
        reads_alone.push(etcd.read(PREFIX).await?.as_secs_f64() * 1e3);
    }
    // Clients get nothing else: the next change is the next resource that arrives.
    writer.change().await?;
    fleet.until(1).await?;
    times.sort_unstable();
    let millis = |time: f64| percentile_micros(&times, time) / 1e3;
    let what = format!("{CHANGES} of {clusters}, connected to served, p50 (ms)");
    table.row(&Row {
        id: "GB-12",
        what: &what,
        ours: millis(0.5),
        peer: ("read alone", median(reads_alone)),
        target: Target::None,
    });
    table.limit("GB-12", &what, millis(0.5), MOST_MILLIS);
    let what = format!("the longest of {rounds} (ms)");
    table.limit("GB-12", &what, millis(1.0), MOST_MILLIS);
    let per_client = (swarm.mark().resources - resources) as f64 / clients as f64 / rounds as f64;
    let what = format!("resources to each of {clients} clients");
    table.limit("GB-12", &what, per_client, CHANGES as f64);
    Ok(())
}

/// Connects clients that have requested these clusters and have them: as many to each replica, so that none of them is
/// moved.
async fn swarms(
    replicas: &[Replica],
    clusters: RangeInclusive<usize>,
    clients: usize,
) -> Result<Vec<Swarm>, String> {
    let resource_type = Holding::Clusters.resource_type();
    let names: Vec<_> = clusters.map(resource_name).collect();
    let manner = Manner::new(resource_type.clone(), Protocol::Delta);
    let resources = names.len();
    let first = request::named(&resource_type, names, [].into());
    connect(replicas, &manner, clients, |_| first.clone(), resources).await
}
