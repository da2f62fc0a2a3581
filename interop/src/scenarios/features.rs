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
    }
    all
}

/// A client that calls until it is dropped.
#[derive(Debug)]
enum Load {
    Ours(ChannelLoad),
    Grpc(GrpcLoad),
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

/// A control plane over a folder, and a client that calls what it describes.
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
            Client::Grpc(grpc) => Load::Grpc(grpc.call(cx, &file)?),
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
