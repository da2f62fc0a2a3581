//! gRPC clients in other languages against `oxds serve`.

use oxds_testkit::certificates::Authority;

use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap, bootstrap_with};
use crate::{Context, Fallible};

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for grpc in [Grpc::Core, Grpc::Go, Grpc::Js] {
        let mut add = |what: &str, run: fn(Context, Grpc) -> super::scenario::Ending| {
            let name = format!("{}_{what}", grpc.name());
            all.push(Scenario::new(name, move |cx| run(cx, grpc)));
        };
        add("calls_follow_weights", |cx, g| {
            Box::pin(calls_follow_weights(cx, g))
        });
        add("calls_follow_priorities", |cx, g| {
            Box::pin(calls_follow_priorities(cx, g))
        });
        add("killed_backend_loses_no_call", |cx, g| {
            Box::pin(killed_backend_loses_no_call(cx, g))
        });
        add("killed_control_plane_loses_no_call", |cx, g| {
            Box::pin(killed_control_plane_loses_no_call(cx, g))
        });
        add("replaced_cluster_loses_no_call", |cx, g| {
            Box::pin(replaced_cluster_loses_no_call(cx, g))
        });
        add("nack_is_visible", |cx, g| Box::pin(nack_is_visible(cx, g)));
        add("reads_certificate_providers", |cx, g| {
            Box::pin(reads_certificate_providers(cx, g))
        });
    }
    all
}

/// A control plane over a folder and a client that calls its services.
struct Mesh {
    folder: Folder,
    oxds: Oxds,
    load: GrpcLoad,
}

impl Mesh {
    async fn start(cx: &Context, grpc: Grpc, resources: &[String]) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[api_listener()])?;
        folder.write("mesh.yaml", resources)?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let file = bootstrap(cx, Bootstrap::Grpc, oxds.grpc).await?;
        let load = grpc.call(cx, &file)?;
        Ok(Self { folder, oxds, load })
    }

    /// Waits until exactly `backends` answer.
    async fn served_by(&self, backends: &[&str]) -> Fallible {
        only_at(&self.load.calls, "calls", backends).await
    }
}

/// Given a folder with certificate, key and roots,
/// when a client starts with the bootstrap that `oxds bootstrap grpc --certs` prints for it,
/// then the client accepts the certificate provider, and calls succeed.
async fn reads_certificate_providers(cx: Context, grpc: Grpc) -> Fallible {
    let certs = cx.dir.join("certs");
    std::fs::create_dir_all(&certs)?;
    let authority = Authority::new("interop")?;
    let own = authority.issue(&["spiffe://interop/client"])?;
    std::fs::write(certs.join("cert.pem"), own.certificate)?;
    std::fs::write(certs.join("key.pem"), own.key)?;
    std::fs::write(certs.join("ca.pem"), authority.pem())?;
    let blue = Backend::start("blue").await?;
    let folder = Folder::create(&cx.dir)?;
    let endpoints = assignment("blue", &[&[blue.address]]);
    let resources = [
        api_listener(),
        routes(&[("blue", 1)]),
        cluster("blue"),
        endpoints,
    ];
    folder.write("mesh.yaml", &resources)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap_with(&cx, Bootstrap::Grpc, oxds.grpc, "interop-1", Some(&certs)).await?;
    let load = grpc.call(&cx, &file)?;
    only_at(&load.calls, "calls", &["blue"]).await?;
    load.calls.none_failed()
}

/// Given two clusters at 90 : 10,
/// when calls are made, and the weights are edited to 25 : 75,
/// then they follow both, and none fails.
async fn calls_follow_weights(cx: Context, grpc: Grpc) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let resources = |weights: [u32; 2]| {
        [
            routes(&[("blue", weights[0]), ("green", weights[1])]),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[blue.address]]),
            assignment("green", &[&[green.address]]),
        ]
    };
    let mesh = Mesh::start(&cx, grpc, &resources([90, 10])).await?;
    mesh.served_by(&["blue", "green"]).await?;
    mesh.load
        .calls
        .next(1000, SOON)
        .await?
        .expect_share("blue", 0.9)?;

    mesh.folder.write("mesh.yaml", &resources([25, 75]))?;
    let mostly_green =
        |c: &crate::calls::Counts| c.by_backend.get("green").copied().unwrap_or(0) * 2 > c.total();
    mesh.load
        .calls
        .settle("mostly green", SETTLED, SOON, mostly_green)
        .await?;
    mesh.load
        .calls
        .next(1000, SOON)
        .await?
        .expect_share("blue", 0.25)?;
    mesh.load.calls.none_failed()
}

/// Given a first and a second priority,
/// when the first dies and returns,
/// then calls go to the second, and return; none is lost (A56).
async fn calls_follow_priorities(cx: Context, grpc: Grpc) -> Fallible {
    let near = Backend::start_on("near", cx.address()?).await?;
    let far = Backend::start("far").await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[near.address], &[far.address]]),
    ];
    let mesh = Mesh::start(&cx, grpc, &resources).await?;
    mesh.served_by(&["near"]).await?;

    let address = near.kill().await;
    mesh.served_by(&["far"]).await?;

    let _near = Backend::start_on("near", address).await?;
    mesh.served_by(&["near"]).await?;
    mesh.load.calls.none_failed()
}

/// Given calls to blue,
/// when one edit deletes blue and moves the route to green, a cluster the client has not heard of,
/// then calls move to green, and none is lost (S-52 with subscriptions by name: the route cannot wait
/// for a cluster that only the route makes the client ask for).
async fn replaced_cluster_loses_no_call(cx: Context, grpc: Grpc) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let only = |name: &str, backend: &Backend| {
        [
            routes(&[(name, 1)]),
            cluster(name),
            assignment(name, &[&[backend.address]]),
        ]
    };
    let mesh = Mesh::start(&cx, grpc, &only("blue", &blue)).await?;
    mesh.served_by(&["blue"]).await?;
    mesh.folder.write("mesh.yaml", &only("green", &green))?;
    mesh.served_by(&["green"]).await?;
    mesh.load
        .calls
        .none_failed_but(|failure| grpc.is_own_race(failure))
}

/// Given three endpoints of one priority,
/// when one is killed,
/// then the other two take its calls, and none is lost.
async fn killed_backend_loses_no_call(cx: Context, grpc: Grpc) -> Fallible {
    let a = Backend::start("a").await?;
    let (b, c) = (Backend::start("b").await?, Backend::start("c").await?);
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[a.address, b.address, c.address]]),
    ];
    let mesh = Mesh::start(&cx, grpc, &resources).await?;
    mesh.served_by(&["a", "b", "c"]).await?;
    a.kill().await;
    mesh.served_by(&["b", "c"]).await?;
    mesh.load.calls.none_failed()
}

/// Given calls in progress,
/// when the control plane is killed, and later returns with another configuration,
/// then calls continue with the old one, then follow the new one, and none is lost.
async fn killed_control_plane_loses_no_call(cx: Context, grpc: Grpc) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let to = |backend: &Backend| {
        [
            routes(&[("blue", 1)]),
            cluster("blue"),
            assignment("blue", &[&[backend.address]]),
        ]
    };
    let mesh = Mesh::start(&cx, grpc, &to(&blue)).await?;
    mesh.served_by(&["blue"]).await?;

    let (grpc_address, http_address) = (mesh.oxds.grpc, mesh.oxds.http);
    mesh.oxds.kill().await?;
    mesh.load.calls.next(500, SOON).await?;
    mesh.folder.write("mesh.yaml", &to(&green))?;
    let _oxds = Oxds::serve_on(&cx, &mesh.folder, grpc_address, http_address).await?;
    mesh.load
        .calls
        .settle("calls at green", SETTLED, SOON, |counts| {
            counts.only(&["green"])
        })
        .await?;
    mesh.load.calls.none_failed()
}

/// Given calls in progress,
/// when the cluster changes to a form that gRPC rejects (the MAGLEV policy, A27),
/// then `/status.json` shows the NACK with its reason, and calls continue with the last valid form;
/// when the file is fixed, the NACK is cleared.
async fn nack_is_visible(cx: Context, grpc: Grpc) -> Fallible {
    let blue = Backend::start("blue").await?;
    let resources = |cluster: String| {
        [
            routes(&[("blue", 1)]),
            cluster,
            assignment("blue", &[&[blue.address]]),
        ]
    };
    let mesh = Mesh::start(&cx, grpc, &resources(cluster("blue"))).await?;
    mesh.served_by(&["blue"]).await?;

    mesh.folder.write(
        "mesh.yaml",
        &resources(cluster_with("blue", "lb_policy: MAGLEV")),
    )?;
    mesh.oxds
        .reports_rejection("blue", grpc.refusal_of_maglev(), SOON)
        .await?;
    mesh.load.calls.next(SETTLED, SOON).await?;

    mesh.folder
        .write("mesh.yaml", &resources(cluster("blue")))?;
    mesh.oxds.reports_no_rejection(SOON).await?;
    mesh.load.calls.none_failed()
}
