//! Clients that request ten names each, with and without the versions that they have; and the death of a replica that a
//! third of them is connected to (GB-4, and GB-16 without etcd).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_core::snapshot::Protocol;

use super::super::probe::Probe;
use super::super::request;
use super::super::resources::resource_name;
use super::super::swarm::{Choice, Manner, Roamers, Swarm};
use super::etcd::REPLICAS;
use super::fleet::{Fleet, Replica, connect};
use super::text::text;
use crate::report::Table;
use crate::roles::Holding;

/// Names that a client requests.
const NAMES: usize = 10;
/// Allowed time until all clients of the dead replica are in sync again, in milliseconds.
const MOST_MILLIS: f64 = 1_000.0;
/// Allowed bytes of responses per client.
const MOST_BYTES: f64 = 200.0;

/// Clients of a configuration of generated clusters.
pub(super) struct Clients {
    count: usize,
    clusters: usize,
    /// Versions by name.
    versions: HashMap<String, String>,
}

impl Clients {
    /// Reads the versions of all clusters at a replica.
    pub(super) async fn of(
        replica: &Replica,
        clusters: usize,
        count: usize,
    ) -> Result<Self, String> {
        let mut probe = Probe::connect(&replica.grpc).await?;
        let (versions, _) = probe.versions(clusters).await?;
        Ok(Self {
            count,
            clusters,
            versions,
        })
    }

    /// Connects a third to each replica. Each client has its clusters in the end.
    pub(super) async fn connect(&self, replicas: &[Replica]) -> Result<Vec<Swarm>, String> {
        let first = |client| self.first(client, &HashMap::new());
        connect(replicas, &manner(), self.count / REPLICAS, first, NAMES).await
    }

    /// Connects clients that choose a replica, and another one when their stream ends. Each has its clusters in the
    /// end.
    pub(super) async fn roam(
        &self,
        replicas: &[Replica],
        choice: Choice,
    ) -> Result<Roamers, String> {
        let addresses: Result<_, _> = replicas.iter().map(|one| one.grpc.parse()).collect();
        let mut roamers = Roamers::new(manner(), choice, addresses.map_err(text)?);
        for client in 0..self.count {
            let first = self.first(client, &HashMap::new());
            roamers.add(first, self.first(client, &self.versions));
        }
        let all = (self.count * NAMES) as u64;
        roamers.until(all, |counted| counted.resources).await?;
        Ok(roamers)
    }

    /// The first request of a client, with the versions that it has.
    fn first(&self, client: usize, versions: &HashMap<String, String>) -> Bytes {
        let names: Vec<_> = (0..NAMES)
            .map(|number| resource_name((client * NAMES + number) % self.clusters))
            .collect();
        let held = names
            .iter()
            .filter_map(|name| Some((name.clone(), versions.get(name)?.clone())));
        let held = held.collect();
        request::named(&Holding::Clusters.resource_type(), names, held)
    }

    /// Kills the last replica. Its clients connect to the others, which have clients, too. Returns the streams of all
    /// replicas that are left.
    pub(super) async fn lose_one(
        &self,
        fleet: &mut Fleet,
        mut swarms: Vec<Swarm>,
    ) -> Result<Returned, String> {
        drop(swarms.pop());
        // A part is killed when it is dropped.
        drop(fleet.replicas.pop());
        let start = Instant::now();
        let left = fleet.replicas.len();
        let mut back = Vec::new();
        for (number, replica) in fleet.replicas.iter().enumerate() {
            let mut swarm = swarm(&replica.grpc)?;
            for client in (0..self.count / REPLICAS).filter(|client| client % left == number) {
                swarm.open(self.first(client, &self.versions)).await?;
            }
            back.push(swarm);
        }
        let (mut last, mut resources, mut bytes) = (start, 0, 0);
        for swarm in &back {
            let answered = swarm.until(swarm.streams() as u64, |counted| counted.messages);
            last = last.max(answered.await?);
            let counted = swarm.mark();
            resources += counted.resources;
            bytes += counted.bytes;
        }
        swarms.append(&mut back);
        Ok(Returned {
            swarms,
            resources,
            took: last - start,
            bytes_per_client: bytes as f64 / (self.count / REPLICAS) as f64,
        })
    }
}

/// Clients that have connected to another replica.
pub(super) struct Returned {
    /// Streams of all clients.
    pub(super) swarms: Vec<Swarm>,
    resources: u64,
    took: Duration,
    bytes_per_client: f64,
}

impl Returned {
    /// Prints the bounds of GB-4.
    pub(super) fn print(&self, id: &str, table: &mut Table) {
        let millis = self.took.as_secs_f64() * 1e3;
        table.limit(id, "resources sent again", self.resources as f64, 0.0);
        table.limit(id, "all clients in sync again (ms)", millis, MOST_MILLIS);
        table.limit(id, "bytes per client", self.bytes_per_client, MOST_BYTES);
    }
}

fn manner() -> Manner {
    Manner::new(Holding::Clusters.resource_type(), Protocol::Delta)
}

fn swarm(address: &str) -> Result<Swarm, String> {
    Swarm::new(address, manner())
}
