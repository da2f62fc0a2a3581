//! GB-5: all replicas restart, one after the other, while a channel makes calls and clients reconnect.
//!
//! ```text
//!   calls, 5,000/s ── our channel ──▶ backends
//!                          └── proxy ──▶ any of three replicas ◀── 300 clients over delta, with versions
//! ```
//!
//! Delta clients count the resources that are sent again: a SotW stream that names its resources gets all of them in
//! its first response (gRFC A57), whatever the client has. The channel uses SotW, and only its calls are counted.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::sleep;

use super::super::swarm::{Choice, Roamers};
use super::clients::Clients;
use super::etcd::{Etcd, LIMIT, REPLICAS};
use super::fleet::{Replica, serve_at};
use super::ports::HeldPorts;
use super::text::text;
use crate::command_line::CommandLine;
use crate::control::{calls, resources};
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::proxy::Proxy;
use crate::report::{Row, Table, Target};
use crate::roles::{Part, Processors, Role, Variant};
use crate::rpc::variant::bootstrap;

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(5);
/// Time in which a replica must end: its drain time is 5 s.
const END: Duration = Duration::from_secs(20);

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, count, rate, pause) = (size.many(), size.clients, size.rate, size.length);
    let mut etcd = Etcd::start().await?;
    etcd.fill(super::etcd::PREFIX, clusters).await?;
    let mut backends = [beside(&Role::Backend)?, beside(&Role::Backend)?];
    let folder = tempfile::tempdir().map_err(text)?;
    publish(&etcd, folder.path(), backends[0].hello()).await?;
    let mut replicas = Restarting::start(&etcd).await?;
    let proxy = replicas.proxy()?;
    let clients = Clients::of(&replicas.running[0], clusters, count).await?;
    let roamers = clients.roam(&replicas.running, Choice::InTurn).await?;
    let mut calling = beside(&Role::Calls {
        variant: Variant::Oxds,
        rate,
        bootstrap: bootstrap(&proxy.address()),
    })?;
    until("calls", async || {
        Ok(calls::status(&mut calling)?.done >= u64::from(rate))
    })
    .await?;

    let (before, resources) = (calls::status(&mut calling)?, roamers.mark().resources);
    let (ended, start) = (roamers.moves().ended, Instant::now());
    for number in 0..REPLICAS {
        replicas.restart(number).await?;
        until("clients", async || Ok(are_connected(&roamers, count))).await?;
        sleep(pause).await;
    }
    let (after, took) = (calls::status(&mut calling)?, start.elapsed());
    // The channel still follows: the calls move.
    publish(&etcd, folder.path(), backends[1].hello()).await?;
    until("calls at the other backend", async || {
        Ok(backends[1].calls()? >= u64::from(rate) / 10)
    })
    .await?;
    let failed = calls::status(&mut calling)?.failed;
    table.row(&Row {
        id: "GB-5",
        what: "calls per second while replicas restart",
        ours: (after.done - before.done) as f64 / took.as_secs_f64(),
        peer: ("wanted", f64::from(rate)),
        target: Target::None,
    });
    table.limit("GB-5", "failed calls", failed as f64, 0.0);
    let again = (roamers.mark().resources - resources) as f64;
    let what = format!("resources sent again to {count} delta clients");
    table.limit("GB-5", &what, again, 0.0);
    let reconnects = roamers.moves().ended - ended;
    table.note(&format!(
        "GB-5: {} restarts in {:.1} s; clients connected {reconnects} times again",
        REPLICAS,
        took.as_secs_f64()
    ));
    match reconnects {
        0 => Err("no client has noticed a restart".to_owned()),
        _ => Ok(()),
    }
}

/// Replicas with a state on disk that get their ports again.
struct Restarting {
    running: Vec<Replica>,
    urls: String,
    ports: Vec<[SocketAddr; 2]>,
    folder: TempDir,
    _held: HeldPorts,
}

impl Restarting {
    async fn start(etcd: &Etcd) -> Result<Self, String> {
        let mut held = HeldPorts::default();
        let ports: Result<_, _> = (0..REPLICAS)
            .map(|_| Ok([held.hold()?, held.hold()?]))
            .collect();
        let mut all = Self {
            running: Vec::new(),
            urls: etcd.urls.clone(),
            ports: ports.map_err(|error: String| error)?,
            folder: tempfile::tempdir().map_err(text)?,
            _held: held,
        };
        for number in 0..REPLICAS {
            let replica = all.replica(number).await?;
            all.running.push(replica);
        }
        Ok(all)
    }

    /// Starts a replica, and waits until it serves.
    async fn replica(&self, number: usize) -> Result<Replica, String> {
        let id = format!("r{number}");
        let state = self.folder.path().join(&id);
        let state = state.to_str().ok_or("a path that is not UTF-8")?;
        let arguments = [
            "serve",
            "--etcd",
            &self.urls,
            "--replica",
            &id,
            "--state",
            state,
        ];
        let replica = serve_at(&arguments, self.ports[number])?;
        replica.ready().await?;
        Ok(replica)
    }

    /// Ends a replica with SIGTERM and starts it again.
    async fn restart(&mut self, number: usize) -> Result<(), String> {
        let old = self.running.remove(number);
        old.part.terminate(END).await?;
        let new = self.replica(number).await?;
        self.running.insert(number, new);
        // The replica serves its state at once, and follows etcd later.
        let is_connected = |replica: &Replica| Ok(replica.metric("oxds_store_connected")? == 1);
        self.running[number].until("connected", is_connected).await
    }

    /// A load balancer in front of all of them.
    fn proxy(&self) -> Result<Proxy, String> {
        let addresses: Vec<_> = self.running.iter().map(|one| one.grpc.as_str()).collect();
        Proxy::start(&addresses)
    }
}

fn beside(role: &Role) -> Result<Part, String> {
    Part::start_on(Processors::Beside, role)
}

fn are_connected(roamers: &Roamers, count: usize) -> bool {
    roamers.clients().iter().sum::<usize>() == count
}

/// Publishes a mesh with this backend in addition to the published resources.
async fn publish(etcd: &Etcd, folder: &Path, backend: &str) -> Result<(), String> {
    resources::save(folder, "routes", backend)?;
    let program = program("OXDS_BENCH_OXDS")?;
    let arguments = ["publish", ".", "--etcd", &etcd.urls];
    let command = CommandLine::new(&program, &arguments, 0);
    command.end(command.start(folder)?).await.map(drop)
}

/// Waits until it is so, while other tasks run.
async fn until(
    what: &str,
    mut is_so: impl AsyncFnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while !is_so().await? {
        if Instant::now() > deadline {
            return Err(format!("no {what} within {LIMIT:?}"));
        }
        sleep(POLL).await;
    }
    Ok(())
}
