//! Our own channel, configured by go-control-plane.

use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::channel::ChannelLoad;
use crate::peers::oxds::{Bootstrap, bootstrap, call};
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::{Context, Fallible};

/// `grpc-status` of a call to a service without configuration.
const UNAVAILABLE: &str = "14 ";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "channel_calls_follow_weights".to_owned(),
            calls_follow_weights,
        ),
        Scenario::new(
            "channel_calls_follow_an_update".to_owned(),
            calls_follow_an_update,
        ),
        Scenario::new(
            "channel_calls_follow_priorities".to_owned(),
            calls_follow_priorities,
        ),
        Scenario::new(
            "channel_calls_end_with_a_deletion".to_owned(),
            calls_end_with_a_deletion,
        ),
        Scenario::new(
            "channel_outlives_its_control_plane".to_owned(),
            outlives_its_control_plane,
        ),
        Scenario::new("channel_nack_is_visible".to_owned(), nack_is_visible),
        Scenario::new(
            "oxds_call_reports_endpoints".to_owned(),
            oxds_call_reports_endpoints,
        ),
    ]
}

/// go-control-plane over a folder, and a channel that it configures.
struct Mesh {
    folder: Folder,
    control_plane: ThirdPartyControlPlane,
    load: ChannelLoad,
}

impl Mesh {
    async fn start(cx: &Context, resources: &[String]) -> Fallible<Self> {
        let (folder, control_plane) = serve(cx, resources).await?;
        let file = bootstrap(cx, Bootstrap::Grpc, control_plane.grpc).await?;
        let load = ChannelLoad::start(&file)?;
        Ok(Self {
            folder,
            control_plane,
            load,
        })
    }

    /// Waits until exactly `backends` answer.
    async fn served_by(&self, backends: &[&str]) -> Fallible {
        only_at(&self.load.calls, "calls", backends).await
    }
}

async fn serve(cx: &Context, resources: &[String]) -> Fallible<(Folder, ThirdPartyControlPlane)> {
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    folder.write("mesh.yaml", resources)?;
    let control_plane = ThirdPartyControlPlane::serve(cx, ThirdParty::Go, &folder).await?;
    Ok((folder, control_plane))
}

/// Two clusters by weight, an endpoint each.
fn weighted(weights: [u32; 2], blue: &Backend, green: &Backend) -> [String; 5] {
    [
        routes(&[("blue", weights[0]), ("green", weights[1])]),
        cluster("blue"),
        cluster("green"),
        assignment("blue", &[&[blue.address]]),
        assignment("green", &[&[green.address]]),
    ]
}

/// Given two clusters at 90 : 10, calls follow the weights, and none fails.
async fn calls_follow_weights(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let mesh = Mesh::start(&cx, &weighted([90, 10], &blue, &green)).await?;
    mesh.served_by(&["blue", "green"]).await?;
    mesh.load
        .calls
        .next(1000, SOON)
        .await?
        .expect_share("blue", 0.9)?;
    mesh.load.calls.none_failed()
}

/// Given calls to blue,
/// when the endpoint moves, and then route and cluster are replaced in one snapshot,
/// then calls follow, and none fails.
async fn calls_follow_an_update(cx: Context) -> Fallible {
    let (blue, red) = (Backend::start("blue").await?, Backend::start("red").await?);
    let green = Backend::start("green").await?;
    let only = |name: &str, backend: &Backend| {
        [
            routes(&[(name, 1)]),
            cluster(name),
            assignment(name, &[&[backend.address]]),
        ]
    };
    let mesh = Mesh::start(&cx, &only("blue", &blue)).await?;
    mesh.served_by(&["blue"]).await?;
    mesh.folder.write("mesh.yaml", &only("blue", &red))?;
    mesh.served_by(&["red"]).await?;
    // This cache sends the types in any order: a cluster in use must not be removed with the edit that replaces it.
    let both = [only("blue", &red), only("green", &green)].concat();
    mesh.folder.write("mesh.yaml", &both[1..])?;
    mesh.served_by(&["green"]).await?;
    mesh.folder.write("mesh.yaml", &only("green", &green))?;
    mesh.served_by(&["green"]).await?;
    mesh.load.calls.none_failed()
}

/// Given two priorities,
/// when the first dies and returns,
/// then calls go to the second, and return; at most the calls in progress at its death are lost.
async fn calls_follow_priorities(cx: Context) -> Fallible {
    let near = Backend::start_on("near", cx.address()?).await?;
    let far = Backend::start("far").await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[near.address], &[far.address]]),
    ];
    let mesh = Mesh::start(&cx, &resources).await?;
    mesh.served_by(&["near"]).await?;
    let address = near.kill().await;
    mesh.served_by(&["far"]).await?;
    let _near = Backend::start_on("near", address).await?;
    mesh.served_by(&["near"]).await?;
    mesh.load.calls.at_most_failed(ChannelLoad::WORKERS)
}

/// Given calls to blue,
/// when the listener is deleted, then calls fail with UNAVAILABLE and name the missing resource;
/// when it returns, they succeed.
async fn calls_end_with_a_deletion(cx: Context) -> Fallible {
    let blue = Backend::start("blue").await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[blue.address]]),
    ];
    let mesh = Mesh::start(&cx, &resources).await?;
    mesh.served_by(&["blue"]).await?;
    mesh.load.calls.none_failed()?;

    mesh.folder.remove("listener.yaml")?;
    let names_target =
        |failure: &String| failure.starts_with(UNAVAILABLE) && failure.contains("shop");
    mesh.load
        .calls
        .settle(
            "calls that fail and name the listener",
            SETTLED,
            SOON,
            |counts| counts.by_backend.is_empty() && counts.failures.iter().all(names_target),
        )
        .await?;

    mesh.folder.write("listener.yaml", &[api_listener()])?;
    mesh.served_by(&["blue"]).await
}

/// Given calls in progress,
/// when the control plane is killed and returns with another configuration,
/// then calls continue with the old one, then follow the new one, and none fails.
async fn outlives_its_control_plane(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let mesh = Mesh::start(&cx, &weighted([1, 0], &blue, &green)).await?;
    mesh.served_by(&["blue"]).await?;
    let address = mesh.control_plane.grpc;
    mesh.control_plane.kill().await?;
    mesh.load.calls.next(500, SOON).await?;
    mesh.folder
        .write("mesh.yaml", &weighted([0, 1], &blue, &green))?;
    let _control_plane =
        ThirdPartyControlPlane::serve_on(&cx, ThirdParty::Go, &mesh.folder, address).await?;
    mesh.load
        .calls
        .settle("calls at green", SETTLED, SOON, |counts| {
            counts.only(&["green"])
        })
        .await?;
    mesh.load.calls.none_failed()
}

/// Given calls to blue,
/// when its cluster changes to a form that gRPC does not know,
/// then the control plane gets a NACK with name and reason, and calls continue with the last valid form.
async fn nack_is_visible(cx: Context) -> Fallible {
    let blue = Backend::start("blue").await?;
    let resources = |cluster: String| {
        [
            routes(&[("blue", 1)]),
            cluster,
            assignment("blue", &[&[blue.address]]),
        ]
    };
    let mut mesh = Mesh::start(&cx, &resources(cluster("blue"))).await?;
    mesh.served_by(&["blue"]).await?;
    mesh.folder.write(
        "mesh.yaml",
        &resources(cluster_with("blue", "lb_policy: MAGLEV")),
    )?;
    let nack = mesh.control_plane.nack(SOON).await?;
    if !(nack.contains("Cluster") && nack.contains("blue") && nack.contains("lb_policy")) {
        return Err(format!("the NACK lacks name or reason: {nack}").into());
    }
    mesh.load.calls.next(SETTLED, SOON).await?;
    mesh.load.calls.none_failed()
}

/// Given two clusters at 75 : 25,
/// when `oxds call` makes 400 calls,
/// then its report has the weights, by the endpoints' addresses, and exit code 0.
async fn oxds_call_reports_endpoints(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let (_folder, control_plane) = serve(&cx, &weighted([75, 25], &blue, &green)).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, control_plane.grpc).await?;
    let report = call(&cx, &file, 400).await?;
    let counts = report.counts();
    if counts.total() != 400 || !counts.failures.is_empty() {
        return Err(format!("wanted 400 calls: {counts}").into());
    }
    counts.expect_share(&blue.address.to_string(), 0.75)
}
