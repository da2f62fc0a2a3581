//! O-1, O-2: pages of a server with many clients and resources, and the cost of a reader for its streams.
//!
//! Most clients subscribe to ten resources that never change, over shared connections: the pages show them. A hundred
//! more have all resources, each over its own connection, as in P-2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use oxds_core::snapshot::Protocol;

use super::http::{Fetched, get};
use super::request;
use super::resources::resource_name;
use super::rig::{Contestant, Pushes, Rig, wait};
use super::swarm::{Manner, Swarm};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::Holding;

/// Longest time to the first byte of a page, in milliseconds.
const FIRST_BYTE_MILLIS: f64 = 50.0;
/// Largest size of a page, in bytes.
const PAGE_BYTES: f64 = 1_000_000.0;
/// Time after which no view of the clients is used again.
const STALE: Duration = Duration::from_millis(1_100);
/// Maximum duration of one series of changes.
const ENOUGH: Duration = Duration::from_secs(15);

pub(crate) fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let holding = Holding::Clusters;
    let manner = Manner::new(holding.resource_type(), Protocol::Delta);
    let mut rig = Rig::start(Contestant::Oxds, holding, size.many(), manner.clone())?;
    let shared = Manner {
        per_connection: 1_000,
        ..manner
    };
    let mut crowd = Swarm::new(super::rig::address(&rig.server), shared)?;
    wait(async {
        fill(&mut crowd, size).await?;
        if plan.wants("O-1") {
            pages(&mut rig, size, table).await?;
        }
        if plan.wants("O-2") {
            readers(&mut rig, size, table).await?;
        }
        Ok(())
    })
}

/// Connects the clients of the pages. Changes begin at the first resource, so those at the end stay.
/// Number of clients that have all resources.
fn wildcards(size: Size) -> usize {
    (size.clients / 100).max(5)
}

async fn fill(crowd: &mut Swarm, size: Size) -> Result<(), String> {
    const NAMES: usize = 10;
    for client in 0..size.clients {
        let first = size.many() - NAMES * (1 + client % 20);
        let names = (first..first + NAMES).map(resource_name).collect();
        let resource_type = Holding::Clusters.resource_type();
        let request = request::named(&resource_type, names, Default::default());
        crowd.fill(1, &request, NAMES).await?;
    }
    Ok(())
}

/// O-1: time and size of each page, after a change that none of them has seen.
async fn pages(rig: &mut Rig, size: Size, table: &mut Table) -> Result<(), String> {
    rig.server
        .send_line(&format!("graph {}", size.many() / 10))?;
    let last = (size.many() / 10) - 1;
    let graph = format!("/graph?listener=graph&path=/service.{last}/Get");
    let paths = [
        ("overview", "/"),
        ("clients", "/clients"),
        (
            "clients, one found",
            "/clients?q=bench&sort=address&page=90",
        ),
        ("resources", "/resources?type=cds&q=0099"),
        ("graph, path of a request", &*graph),
        ("history", "/history"),
        ("status.json", "/status.json"),
        ("status.json, no clients", "/status.json?limit=0"),
    ];
    let http = http_address(rig)?;
    for (what, path) in paths {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..size.rounds {
            rig.server.send_line("change")?;
            // During this time the clients of this thread answer pings: a server ends connections that do not.
            tokio::time::sleep(STALE).await;
            let fetched = page(&http, path).await?;
            times.push(fetched.first_byte);
            bytes = bytes.max(fetched.text.len());
        }
        times.sort_unstable();
        let millis = percentile_micros(&times, 0.5) / 1e3;
        let first_byte = format!("{what}: first byte (ms)");
        table.limit("O-1", &first_byte, millis, FIRST_BYTE_MILLIS);
        table.limit("O-1", &format!("{what}: bytes"), bytes as f64, PAGE_BYTES);
    }
    Ok(())
}

/// Requests a page on another thread.
async fn page(http: &str, path: &str) -> Result<Fetched, String> {
    let (http, path) = (http.to_owned(), path.to_owned());
    let fetched = tokio::task::spawn_blocking(move || get(&http, &path)?.ok());
    fetched.await.map_err(|error| error.to_string())?
}

fn http_address(rig: &Rig) -> Result<String, String> {
    let address = rig.server.hello().split(' ').nth(1);
    address
        .map(str::to_owned)
        .ok_or_else(|| "no HTTP port".to_owned())
}

/// O-2: P-2 without and with readers, in turns, so that other load of the machine affects both.
async fn readers(rig: &mut Rig, size: Size, table: &mut Table) -> Result<(), String> {
    let first = request::all(&Holding::Clusters.resource_type(), Protocol::Delta);
    rig.swarm.fill(wildcards(size), &first, size.many()).await?;
    let (mut alone, mut read) = (Vec::new(), Vec::new());
    let mut cpu = [0.0; 2];
    for _ in 0..size.rounds.min(3) {
        let pushes = rig.pushes(size.steps, ENOUGH, wildcards(size)).await?;
        cpu[0] += pushes.cpu_micros_per_change;
        alone.extend(last(pushes));
        let readers = Readers::start(&http_address(rig)?);
        let pushes = rig.pushes(size.steps, ENOUGH, wildcards(size)).await;
        readers.stop()?;
        let pushes = pushes?;
        cpu[1] += pushes.cpu_micros_per_change;
        read.extend(last(pushes));
    }
    alone.sort_unstable();
    read.sort_unstable();
    for (what, part) in [("p50", 0.5), ("p90", 0.9)] {
        table.row(&Row {
            id: "O-2",
            what: &format!("last of {} clients, {what}, readers (us)", wildcards(size)),
            ours: percentile_micros(&read, part),
            peer: ("no reader", percentile_micros(&alone, part)),
            target: Target::AtMost(1.05),
        });
    }
    table.row(&Row {
        id: "O-2",
        what: "server CPU per change, readers (us)",
        ours: cpu[1],
        peer: ("no reader", cpu[0]),
        target: Target::None,
    });
    Ok(())
}

fn last(pushes: Pushes) -> Vec<Duration> {
    pushes.last
}

/// A browser at the overview, and a tool at the status without clients. Both ask once per second.
struct Readers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Readers {
    fn start(http: &str) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let threads = ["/", "/status.json?limit=0"].map(|path| {
            let (http, is_over) = (http.to_owned(), Arc::clone(&is_over));
            spawn(move || {
                while !is_over.load(Relaxed) {
                    get(&http, path)?.ok()?;
                    sleep(Duration::from_secs(1));
                }
                Ok(())
            })
        });
        Self {
            is_over,
            threads: threads.into(),
        }
    }

    fn stop(self) -> Result<(), String> {
        self.is_over.store(true, Relaxed);
        for thread in self.threads {
            let ended = thread.join();
            ended.map_err(|_| "a reader panicked".to_owned())??;
        }
        Ok(())
    }
}
