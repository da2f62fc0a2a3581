//! Servers that follow etcd, each with a client that reads everything.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_core::snapshot::Protocol;
use tokio::sync::mpsc;

use super::super::metrics;
use super::super::probe::Probe;
use super::super::request;
use super::super::resources::resource_name;
use super::super::swarm::{Manner, Swarm};
use super::etcd::{Etcd, LIMIT, PREFIX, REPLICAS};
use crate::program::program;
use crate::roles::{Holding, Part};
use crate::serve::ANY_PORT;

/// Pause between two looks at a replica.
const POLL: Duration = Duration::from_millis(2);
/// Names that one of [`subscribers`] requests.
const NAMES: usize = 10;

/// Servers of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `oxds serve --etcd`.
    Oxds,
    /// go-control-plane, fed by etcd's Go client.
    Plain,
}

/// A server that follows etcd.
pub(super) struct Replica {
    pub(super) part: Part,
    /// Address of its discovery services.
    pub(super) grpc: String,
    /// Address of its HTTP port; none of the plain alternative.
    http: Option<String>,
}

impl Replica {
    /// Starts `oxds serve --etcd` without a state of its own.
    pub(super) fn oxds(urls: &str, prefix: &str, id: &str) -> Result<Self, String> {
        let arguments = ["serve", "--etcd", urls, "--prefix", prefix, "--replica", id];
        serve(&arguments)
    }

    /// Starts the plain alternative.
    fn plain(etcd: &Etcd, prefix: &str) -> Result<Self, String> {
        let program = program("OXDS_BENCH_GO_CONTROL_PLANE")?;
        let arguments = [format!("-etcd={}", etcd.urls), format!("-prefix={prefix}")];
        let part = Part::start_program(&program, &arguments)?;
        Ok(Self {
            grpc: part.hello().to_owned(),
            http: None,
            part,
        })
    }

    /// Returns the value of a metric.
    pub(super) fn metric(&self, name: &str) -> Result<u64, String> {
        let http = self.http.as_deref().ok_or("a peer without metrics")?;
        metrics::value(http, name)
    }

    /// Waits until it serves.
    pub(super) async fn ready(&self) -> Result<(), String> {
        self.until("ready", Self::is_ready).await
    }

    /// Waits until it is like this.
    pub(super) async fn until(
        &self,
        what: &str,
        is_so: impl Fn(&Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self)? {
            if Instant::now() > deadline {
                return Err(format!("not {what} within {LIMIT:?}"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether it serves.
    fn is_ready(&self) -> Result<bool, String> {
        let http = self.http.as_deref().ok_or("a peer without readiness")?;
        Ok(metrics::page(http, "/readyz")?.starts_with("HTTP/1.1 200"))
    }
}

/// Starts `oxds` with these arguments, on ports that the system chooses.
pub(super) fn serve(arguments: &[&str]) -> Result<Replica, String> {
    serve_at(arguments, [ANY_PORT; 2])
}

/// Starts it on these ports for gRPC and for HTTP.
pub(super) fn serve_at(arguments: &[&str], ports: [SocketAddr; 2]) -> Result<Replica, String> {
    let program = program("OXDS_BENCH_OXDS")?;
    let [grpc, http] = ports.map(|port| port.to_string());
    let ports = ["--grpc", &grpc, "--http", &http];
    let arguments = arguments.iter().chain(&ports).map(|&text| text.to_owned());
    let mut part = Part::start_program(&program, &arguments.collect::<Vec<_>>())?;
    let line = |text: &str, word| {
        let address = text.strip_prefix(word).map(str::to_owned);
        address.ok_or_else(|| format!("oxds serve: {text}"))
    };
    let grpc = line(part.hello(), "grpc ")?;
    let http = line(&part.answer()?, "http ")?;
    Ok(Replica {
        part,
        grpc,
        http: Some(http),
    })
}

/// Starts servers, which do not have to be ready.
pub(super) fn replicas(kind: Kind, etcd: &Etcd, prefix: &str) -> Result<Vec<Replica>, String> {
    let replicas = (0..REPLICAS).map(|number| match kind {
        Kind::Oxds => Replica::oxds(&etcd.urls, prefix, &format!("r{number}")),
        Kind::Plain => Replica::plain(etcd, prefix),
    });
    replicas.collect()
}

/// Servers, and the clusters that their clients get.
pub(super) struct Fleet {
    pub(super) replicas: Vec<Replica>,
    /// Number of a replica, of clusters in a response, and its time.
    arrivals: mpsc::UnboundedReceiver<(usize, usize, Instant)>,
}

impl Fleet {
    /// Starts servers, and waits until their clients have this many clusters.
    pub(super) async fn start(
        kind: Kind,
        etcd: &Etcd,
        prefix: &str,
        clusters: usize,
    ) -> Result<Self, String> {
        Self::of(replicas(kind, etcd, prefix)?, clusters).await
    }

    /// Waits until the clients of these servers have this many clusters.
    pub(super) async fn of(replicas: Vec<Replica>, clusters: usize) -> Result<Self, String> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        for (number, replica) in replicas.iter().enumerate() {
            let mut probe = Probe::connect(&replica.grpc).await?;
            probe.sync(clusters).await?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Ok(resources) = probe.next_change().await {
                    if sender.send((number, resources, Instant::now())).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { replicas, arrivals })
    }

    /// Waits until every client has this many more clusters, and returns the time of the last response. More of them
    /// are an error.
    pub(super) async fn until(&mut self, clusters: usize) -> Result<Instant, String> {
        let times = self.arrivals(clusters).await?;
        times.into_iter().max().ok_or("no replicas".to_owned())
    }

    /// Does the same, and returns the time of the last response of each replica.
    pub(super) async fn arrivals(&mut self, clusters: usize) -> Result<Vec<Instant>, String> {
        let mut missing = vec![clusters; self.replicas.len()];
        let mut last = vec![Instant::now(); missing.len()];
        while missing.iter().any(|&count| count > 0) {
            let arrived = tokio::time::timeout(LIMIT, self.arrivals.recv());
            let arrived = arrived
                .await
                .map_err(|_| format!("{missing:?} clusters did not arrive"))?;
            let (number, resources, time) = arrived.ok_or("the clients ended")?;
            missing[number] = missing[number]
                .checked_sub(resources)
                .ok_or_else(|| format!("replica {number} sent too many clusters"))?;
            last[number] = time;
        }
        Ok(last)
    }
}

/// Connects this many clients to each replica: one to each in turn, because a replica that has far more than the others
/// asks some to move. Each has this many resources in the end.
pub(super) async fn connect(
    replicas: &[Replica],
    manner: &Manner,
    clients: usize,
    first: impl Fn(usize) -> Bytes,
    resources: usize,
) -> Result<Vec<Swarm>, String> {
    let swarms = replicas
        .iter()
        .map(|replica| Swarm::new(&replica.grpc, manner.clone()));
    let mut swarms = swarms.collect::<Result<Vec<_>, _>>()?;
    for client in 0..clients {
        for swarm in &mut swarms {
            swarm.open(first(client)).await?;
        }
    }
    for swarm in &swarms {
        let all = (clients * resources) as u64;
        swarm.until(all, |counted| counted.resources).await?;
    }
    Ok(swarms)
}

/// Connects this many delta clients to each replica. They have requested the first clusters, have them, and have
/// accepted them.
pub(super) async fn subscribers(
    replicas: &[Replica],
    clients: usize,
    answer_after: Duration,
) -> Result<Vec<Swarm>, String> {
    let resource_type = Holding::Clusters.resource_type();
    let manner = Manner {
        answer_after,
        ..Manner::new(resource_type.clone(), Protocol::Delta)
    };
    let names = (0..NAMES).map(resource_name).collect();
    let first = request::named(&resource_type, names, [].into());
    let swarms = connect(replicas, &manner, clients, |_| first.clone(), NAMES).await?;
    for swarm in &swarms {
        let all = clients as u64;
        swarm.until(all, |counted| counted.answers).await?;
    }
    Ok(swarms)
}

/// Returns the number of answers that each swarm has given when all its clients have answered one more response.
pub(super) fn answers_of_next(swarms: &[Swarm]) -> Vec<u64> {
    swarms
        .iter()
        .map(|swarm| swarm.mark().answers + swarm.streams() as u64)
        .collect()
}

/// The prefix of a kind's configuration.
pub(super) fn prefix(kind: Kind) -> &'static str {
    match kind {
        Kind::Oxds => PREFIX,
        Kind::Plain => "/plain/",
    }
}

/// The prefix of the keys that only the writer of a kind writes.
pub(super) fn published(kind: Kind) -> &'static str {
    match kind {
        Kind::Oxds => "/oxds/default/l/",
        Kind::Plain => prefix(kind),
    }
}
