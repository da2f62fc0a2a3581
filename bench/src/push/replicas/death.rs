//! GB-4: one of three replicas is killed, and its clients connect to the others.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use oxds_core::snapshot::Protocol;

use super::super::holding::{Holding, resource_name};
use super::super::probe::Probe;
use super::super::request;
use super::super::swarm::{Manner, Swarm};
use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Fleet, Kind};
use crate::Plan;
use crate::report::Table;

/// Names that a client requests.
const NAMES: usize = 10;
/// Allowed time until all clients of the dead replica are in sync again, in milliseconds.
const MOST_MILLIS: f64 = 1_000.0;
/// Allowed bytes of responses per client.
const MOST_BYTES: f64 = 200.0;

pub(super) async fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let (clusters, clients) = if plan.smoke {
        (1_000, 30)
    } else {
        (100_000, 999)
    };
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    let mut probe = Probe::connect(&fleet.replicas[0].grpc).await?;
    let (versions, _) = probe.versions(clusters).await?;
    drop(probe);

    let mut swarms = Vec::new();
    for replica in &fleet.replicas {
        let mut swarm = swarm(&replica.grpc)?;
        for client in 0..clients / REPLICAS {
            swarm.open(first(client, clusters, &HashMap::new())).await?;
        }
        let all = (clients / REPLICAS * NAMES) as u64;
        swarm.until(all, |counted| counted.resources).await?;
        swarms.push(swarm);
    }
    drop(swarms.remove(0));
    // A part is killed when it is dropped.
    drop(fleet.replicas.remove(0));
    let start = Instant::now();
    let (mut last, mut resources, mut bytes) = (start, 0, 0);
    let mut returned = Vec::new();
    for (number, replica) in fleet.replicas.iter().enumerate() {
        let mut swarm = swarm(&replica.grpc)?;
        for client in
            (0..clients / REPLICAS).filter(|client| client % fleet.replicas.len() == number)
        {
            swarm.open(first(client, clusters, &versions)).await?;
        }
        returned.push(swarm);
    }
    for swarm in &returned {
        let answered = swarm.until(swarm.streams() as u64, |counted| counted.messages);
        last = last.max(answered.await?);
        let counted = swarm.mark();
        resources += counted.resources;
        bytes += counted.bytes;
    }
    let millis = last.duration_since(start).as_secs_f64() * 1e3;
    table.limit("GB-4", "resources sent again", resources as f64, 0.0);
    table.limit(
        "GB-4",
        "all clients in sync again (ms)",
        millis,
        MOST_MILLIS,
    );
    let per_client = bytes as f64 / (clients / REPLICAS) as f64;
    table.limit("GB-4", "bytes per client", per_client, MOST_BYTES);
    Ok(())
}

fn swarm(address: &str) -> Result<Swarm, String> {
    let clusters = Holding::Clusters.resource_type();
    Swarm::new(address, Manner::new(clusters, Protocol::Delta))
}

/// The first request of a client, with the versions that it has.
fn first(client: usize, clusters: usize, versions: &HashMap<String, String>) -> Bytes {
    let names: Vec<_> = (0..NAMES)
        .map(|number| resource_name((client * NAMES + number) % clusters))
        .collect();
    let held = names
        .iter()
        .filter_map(|name| Some((name.clone(), versions.get(name)?.clone())));
    let held = held.collect();
    request::named(&Holding::Clusters.resource_type(), names, held)
}
