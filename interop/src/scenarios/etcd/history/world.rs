//! The system under faults: members of etcd, replicas, the networks between them, and the replicas' clients.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use oxds_etcd::ReplicaStatus;

use super::super::SOON;
use super::super::shared::{read, status_key};
use super::heads::Heads;
use super::plan::EACH;
use super::run::Shared;
use super::sight::Sight;
use crate::gate::{Gate, Silence};
use crate::peers::clock::Clock;
use crate::peers::etcd::{Etcd, Member, Release, Setup};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Step of a clock that shows in a status.
const STEP: i64 = 86_400;

/// A network: a way to each member.
#[derive(Debug)]
pub(super) struct Network {
    gates: Vec<Gate>,
    members: Vec<SocketAddr>,
}

impl Network {
    async fn before(members: &[Member]) -> Fallible<Self> {
        let mut gates = Vec::new();
        for member in members {
            gates.push(Gate::before(member.address).await?);
        }
        Ok(Self {
            gates,
            members: members.iter().map(|member| member.address).collect(),
        })
    }

    fn urls(&self) -> String {
        let urls: Vec<_> = self.gates.iter().map(Gate::url).collect();
        urls.join(",")
    }

    pub(super) fn close(&self) {
        self.gates.iter().for_each(Gate::close);
    }

    pub(super) fn open(&self) {
        for (gate, member) in self.gates.iter().zip(&self.members) {
            gate.open(*member);
        }
    }

    pub(super) fn cut(&self) {
        self.gates.iter().for_each(Gate::cut_all);
    }

    /// Lets nothing arrive in these directions, on the way to one member or to all.
    pub(super) fn silence(&self, member: Option<usize>, silence: Silence) {
        for (index, gate) in self.gates.iter().enumerate() {
            if member.is_none_or(|member| member == index) {
                gate.silence(silence);
            }
        }
    }
}

/// A client of replicas, with the states that it has received.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) subscriber: Subscriber,
    pub(super) sight: Sight,
}

/// The system.
#[derive(Debug)]
pub(super) struct World {
    pub(super) etcd: Etcd,
    pub(super) heads: Heads,
    pub(super) replicas: Vec<Replica>,
    /// How often each replica was killed.
    pub(super) processes: Vec<Arc<AtomicU64>>,
    /// Networks of the replicas, and that of the writers.
    pub(super) networks: Vec<Network>,
    pub(super) clients: Vec<Client>,
    pub(super) backup: PathBuf,
}

impl World {
    /// Starts three members and three replicas, each with two clients that stay at it, and two clients that move.
    pub(super) async fn start(cx: &Context, release: Release, shared: &Shared) -> Fallible<Self> {
        // At its level of debugging, etcd would log gigabytes.
        let options = ["--log-level", "warn"].map(OsString::from);
        let setup = Setup {
            members: EACH,
            options: &options,
            ..Setup::default()
        };
        let etcd = Etcd::start_as(cx, release, setup).await?;
        etcd.connect().await?;
        let heads = Heads::new(&etcd.urls())?;
        let mut world = Self {
            etcd,
            heads,
            replicas: Vec::new(),
            processes: Vec::new(),
            networks: Vec::new(),
            clients: Vec::new(),
            backup: cx.dir.join("backup.db"),
        };
        for _ in 0..=EACH {
            let network = Network::before(&world.etcd.members).await?;
            world.networks.push(network);
        }
        // Replicas start on a published state, so that no client sees a state without one.
        for lane in 0..super::content::LANES.len() {
            super::writers::fence(shared, &world.etcd.urls(), lane).await?;
        }
        for number in 0..EACH {
            let id = format!("replica-{number}");
            let clock = Clock::new(cx, &id)?;
            clock.step(STEP)?;
            let urls = world.networks[number].urls();
            world
                .replicas
                .push(Replica::by_clock(cx, &urls, &id, clock).await?);
            world.processes.push(Arc::default());
        }
        world.clocks_step().await?;
        world.clients();
        world.back_up().await?;
        Ok(world)
    }

    /// URLs of the writers' network.
    pub(super) fn writers_urls(&self) -> String {
        self.networks.last().map(Network::urls).unwrap_or_default()
    }

    /// Fails unless the replicas go by their clocks: their statuses have the time of their start.
    async fn clocks_step(&mut self) -> Fallible {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let stepped = now + Duration::from_secs(STEP.unsigned_abs() / 2);
        for replica in &self.replicas {
            let (key, heads) = (status_key(&replica.id)?, &mut self.heads);
            let started = until("a status", SOON, async || {
                let (_, kvs) = heads.read(&read(&key)).await?;
                let status = kvs.first().and_then(|kv| ReplicaStatus::decode(&kv.value));
                Ok(status.map(|status| status.started))
            });
            let started = Duration::from_millis(started.await?);
            if started < stepped {
                return Err(format!(
                    "{} started at {started:?}: its clock did not step",
                    replica.id
                )
                .into());
            }
            replica.clock()?.step(0)?;
        }
        Ok(())
    }

    fn clients(&mut self) {
        let all: Vec<_> = self.replicas.iter().map(|replica| replica.grpc).collect();
        for protocol in [Protocol::Sotw, Protocol::Delta] {
            for (number, address) in all.iter().enumerate() {
                let processes = Arc::clone(&self.processes[number]);
                let subscriber = Subscriber::counting(vec![*address], protocol, processes);
                let name = format!("{protocol:?} client of replica-{number}");
                self.clients.push(Client {
                    subscriber,
                    sight: Sight::new(name, protocol, true),
                });
            }
            let name = format!("{protocol:?} client that moves");
            self.clients.push(Client {
                subscriber: Subscriber::start(all.clone(), protocol),
                sight: Sight::new(name, protocol, false),
            });
        }
    }

    /// Saves the data of etcd for a later restore.
    pub(super) async fn back_up(&self) -> Fallible {
        if self.backup.exists() {
            std::fs::remove_file(&self.backup)?;
        }
        self.etcd.back_up(&self.backup).await
    }

    /// Checks all states that clients have received. The record has all heads.
    pub(super) fn check_clients(&mut self, shared: &Shared) -> Fallible {
        let mut run = shared.lock();
        for client in &mut self.clients {
            for response in client.subscriber.take() {
                client.sight.see(&run.record, &response)?;
                run.figures.states += 1;
            }
        }
        Ok(())
    }
}
