//! Features of the data plane, each with the same folder for our channel and for gRPC in other languages.

use std::time::Duration;

use super::scenario::Ending;
use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::{Backend, Behaviour};
use crate::calls::{Calls, Counts};
use crate::config::{
    Folder, api_listener, api_listener_with, assignment, cluster, cluster_with, routes,
};
use crate::peers::channel::ChannelLoad;
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::{Context, Fallible};

/// Aborts one call in five, with a code that the route retries.
const FAULT: &str = r#"{ name: fault, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, abort: { grpc_status: 14, percentage: { numerator: 20 } } } }"#;

/// Ejects an endpoint whose calls fail, for two seconds at first.
const OUTLIERS: &str = "outlier_detection: { interval: 1s, base_ejection_time: 2s, max_ejection_percent: 50, \
    enforcing_success_rate: 0, enforcing_failure_percentage: 100, failure_percentage_threshold: 50, \
    failure_percentage_minimum_hosts: 3, failure_percentage_request_volume: 5 }";

/// Weights from the reports of the backends, from the first report on.
const WEIGHTED: &str = r#"load_balancing_policy:
  policies:
  - typed_extension_config:
      name: weighted
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin
        blackout_period: 0s
        weight_update_period: 0.1s"#;

/// Clients under test.
#[derive(Clone, Copy, Debug)]
enum Client {
    Ours,
    Grpc(Grpc),
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let clients = [
        Client::Ours,
        Client::Grpc(Grpc::Core),
        Client::Grpc(Grpc::Go),
        Client::Grpc(Grpc::Js),
    ];
    for client in clients {
        let mut add = |what: &str, run: fn(Context, Client) -> Ending| {
            let name = format!("{}_{what}", client.name());
            all.push(Scenario::new(name, move |cx| run(cx, client)));
        };
        add("faults_abort_their_share", |cx, client| {
            Box::pin(faults_abort_their_share(cx, client))
        });
        add("retries_hide_unavailable_backends", |cx, client| {
            Box::pin(retries_hide_unavailable_backends(cx, client))
        });
        add("outlier_is_ejected_and_returns", |cx, client| {
            Box::pin(outlier_is_ejected_and_returns(cx, client))
        });
        add("circuit_breaker_limits_calls", |cx, client| {
            Box::pin(circuit_breaker_limits_calls(cx, client))
        });
        add("aggregate_cluster_fails_over_and_returns", |cx, client| {
            Box::pin(aggregate_cluster_fails_over_and_returns(cx, client))
        });
        add("dns_cluster_reaches_its_host", |cx, client| {
            Box::pin(dns_cluster_reaches_its_host(cx, client))
        });
        // grpc-js has no weighted round robin.
        if !matches!(client, Client::Grpc(Grpc::Js)) {
            add("weights_follow_load_reports", |cx, client| {
                Box::pin(weights_follow_load_reports(cx, client))
            });
        }
    }
    all
}

/// A client that calls until it is dropped.
#[derive(Debug)]
enum Load {
    Ours(ChannelLoad),
    Grpc(Box<GrpcLoad>),
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "channel",
            Self::Grpc(grpc) => grpc.name(),
        }
    }
}

impl Load {
    fn calls(&self) -> &Calls {
        match self {
            Self::Ours(load) => &load.calls,
            Self::Grpc(load) => &load.calls,
        }
    }
}

/// A control plane over a folder, and a client that calls its services.
struct Mesh {
    folder: Folder,
    _oxds: Oxds,
    load: Load,
}

impl Mesh {
    async fn start(
        cx: &Context,
        client: Client,
        listener: String,
        resources: &[String],
    ) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[listener])?;
        folder.write("mesh.yaml", resources)?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let file = bootstrap(cx, Bootstrap::Grpc, oxds.grpc).await?;
        let load = match client {
            Client::Ours => Load::Ours(ChannelLoad::start(&file)?),
            Client::Grpc(grpc) => Load::Grpc(Box::new(grpc.call(cx, &file)?)),
        };
        Ok(Self {
            folder,
            _oxds: oxds,
            load,
        })
    }

    fn calls(&self) -> &Calls {
        self.load.calls()
    }
}

/// Routes to the cluster `blue`, the cluster, and its endpoints.
fn blue(cluster: String, backends: &[&Backend]) -> [String; 3] {
    let addresses: Vec<_> = backends.iter().map(|backend| backend.address).collect();
    [
        routes(&[("blue", 1)]),
        cluster,
        assignment("blue", &[&addresses]),
    ]
}

/// Given a fault filter that aborts 20 % of the calls,
/// when calls are made,
/// then a fifth of them fails, and none of these is retried (A33).
async fn faults_abort_their_share(cx: Context, client: Client) -> Fallible {
    let backend = Backend::start("blue").await?;
    let resources = blue(cluster("blue"), &[&backend]);
    let mesh = Mesh::start(&cx, client, api_listener_with(FAULT), &resources).await?;
    let answered = |counts: &Counts| counts.by_backend.contains_key("blue");
    let calls = mesh.calls();
    calls.settle("an answer", 1, SOON, answered).await?;
    let counts = calls.next(1000, SOON).await?;
    counts.expect_share("blue", 0.8)
}

/// Given a backend that refuses all but retries,
/// when calls are made by a route with a retry policy,
/// then all succeed (A44).
async fn retries_hide_unavailable_backends(cx: Context, client: Client) -> Fallible {
    let backend = Backend::start("blue").await?;
    backend.set(Behaviour::RefusesFirstAttempts);
    let resources = blue(cluster("blue"), &[&backend]);
    let mesh = Mesh::start(&cx, client, api_listener(), &resources).await?;
    mesh.calls().next(SETTLED, SOON).await?;
    mesh.calls().none_failed()
}

/// Given three backends and outlier detection,
/// when one fails, and answers again later,
/// then it gets no calls for some time, and gets its share later (A50).
async fn outlier_is_ejected_and_returns(cx: Context, client: Client) -> Fallible {
    let a = Backend::start("a").await?;
    let (b, c) = (Backend::start("b").await?, Backend::start("c").await?);
    let cluster = cluster_with("blue", OUTLIERS);
    let resources = blue(cluster, &[&a, &b, &c]);
    let mesh = Mesh::start(&cx, client, api_listener(), &resources).await?;
    only_at(mesh.calls(), "calls", &["a", "b", "c"]).await?;
    c.set(Behaviour::Fails);
    only_at(mesh.calls(), "calls", &["a", "b"]).await?;
    c.set(Behaviour::Answers);
    only_at(mesh.calls(), "calls", &["a", "b", "c"]).await
}

/// Given a slow backend and a limit of one request,
/// when three calls are made at a time, and the limit is raised later,
/// then some fail and some succeed, and all succeed later (A32).
async fn circuit_breaker_limits_calls(cx: Context, client: Client) -> Fallible {
    let backend = Backend::start("blue").await?;
    backend.set(Behaviour::AnswersAfter(Duration::from_millis(20)));
    let limited = |limit: u32| {
        let limit = format!("circuit_breakers: {{ thresholds: [{{ max_requests: {limit} }}] }}");
        blue(cluster_with("blue", &limit), &[&backend])
    };
    let mesh = Mesh::start(&cx, client, api_listener(), &limited(1)).await?;
    let both = |counts: &Counts| {
        let failed = !counts.failures.is_empty();
        failed && counts.by_backend.contains_key("blue")
    };
    let calls = mesh.calls();
    calls
        .settle("some failed calls", SETTLED, SOON, both)
        .await?;
    mesh.folder.write("mesh.yaml", &limited(100))?;
    only_at(mesh.calls(), "calls", &["blue"]).await
}

/// Given an aggregate cluster of two clusters,
/// when the endpoint of the first dies and returns,
/// then calls go to the second, and return; at most the calls in progress are lost (A37).
async fn aggregate_cluster_fails_over_and_returns(cx: Context, client: Client) -> Fallible {
    let near = Backend::start_on("near", cx.address()?).await?;
    let far = Backend::start("far").await?;
    let resources = [
        routes(&[("both", 1)]),
        aggregate("both", &["near", "far"]),
        cluster("near"),
        cluster("far"),
        assignment("near", &[&[near.address]]),
        assignment("far", &[&[far.address]]),
    ];
    let mesh = Mesh::start(&cx, client, api_listener(), &resources).await?;
    only_at(mesh.calls(), "calls", &["near"]).await?;
    let address = near.kill().await;
    only_at(mesh.calls(), "calls", &["far"]).await?;
    let _near = Backend::start_on("near", address).await?;
    only_at(mesh.calls(), "calls", &["near"]).await?;
    mesh.calls().at_most_failed(ChannelLoad::WORKERS)
}

/// Given a LOGICAL_DNS cluster with the host name `localhost`,
/// when calls are made,
/// then they reach it (A37).
async fn dns_cluster_reaches_its_host(cx: Context, client: Client) -> Fallible {
    let backend = Backend::start("local").await?;
    let resources = [
        routes(&[("local", 1)]),
        dns("local", backend.address.port()),
    ];
    let mesh = Mesh::start(&cx, client, api_listener(), &resources).await?;
    only_at(mesh.calls(), "calls", &["local"]).await?;
    mesh.calls().none_failed()
}

/// Given two backends that report a utilization of 20 % and of 80 % at the same rate,
/// when calls are made by client-side weighted round robin,
/// then the first gets four times the calls of the second (A58).
async fn weights_follow_load_reports(cx: Context, client: Client) -> Fallible {
    let (idle, busy) = (Backend::start("idle").await?, Backend::start("busy").await?);
    idle.set(Behaviour::Reports(20));
    busy.set(Behaviour::Reports(80));
    let resources = blue(cluster_with("blue", WEIGHTED), &[&idle, &busy]);
    let mesh = Mesh::start(&cx, client, api_listener(), &resources).await?;
    let mostly_idle = |counts: &Counts| {
        let idle = counts.by_backend.get("idle").copied().unwrap_or(0);
        idle * 4 >= counts.total() * 3
    };
    let calls = mesh.calls();
    calls
        .settle("mostly idle", 4 * SETTLED, SOON, mostly_idle)
        .await?;
    calls.next(1000, SOON).await?.expect_share("idle", 0.8)?;
    calls.none_failed()
}

/// A cluster of other clusters, by priority.
fn aggregate(name: &str, clusters: &[&str]) -> String {
    let clusters = clusters.join(", ");
    format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
connect_timeout: 1s
cluster_type:
  name: envoy.clusters.aggregate
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
    clusters: [{clusters}]
"#
    )
}

/// A cluster with the host name `localhost`.
fn dns(name: &str, port: u16) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
type: LOGICAL_DNS
connect_timeout: 1s
load_assignment:
  cluster_name: {name}
  endpoints:
  - lb_endpoints:
    - endpoint: {{ address: {{ socket_address: {{ address: localhost, port_value: {port} }} }} }}
"#
    )
}
