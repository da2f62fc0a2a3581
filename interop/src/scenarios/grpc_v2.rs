//! Clients of API v2 against `oxds serve`: S-62, S-63.

use serde_json::Value;

use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::grpc::GrpcLoad;
use crate::peers::grpc_v2::OldGo;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::{Context, Fallible, http};

pub(super) fn scenarios() -> Vec<Scenario> {
    let follow = |client: OldGo| {
        let name = format!("{}_follows_an_edit", client.name());
        Scenario::new(name, move |cx| follows_an_edit(cx, client))
    };
    let mut all: Vec<_> = OldGo::ALL.map(follow).into();
    let name = "grpc_go_v2_and_v3_see_the_same".to_owned();
    all.push(Scenario::new(name, both_see_the_same));
    all
}

/// The route, with the explicit sum of its weights: clients of that time check the sum.
fn weighted(weights: &[(&str, u32)]) -> String {
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let with_total = format!("weighted_clusters: {{ total_weight: {total}, ");
    routes(weights).replace("weighted_clusters: { ", &with_total)
}

struct Mesh {
    folder: Folder,
    oxds: Oxds,
    loads: Vec<(OldGo, GrpcLoad)>,
}

impl Mesh {
    async fn start(cx: &Context, clients: &[OldGo], resources: &[String]) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[api_listener()])?;
        folder.write("mesh.yaml", resources)?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let file = bootstrap(cx, Bootstrap::Grpc, oxds.grpc).await?;
        let mut loads = Vec::new();
        for client in clients {
            loads.push((*client, client.call(cx, &file)?));
        }
        Ok(Self {
            folder,
            oxds,
            loads,
        })
    }

    /// Waits until exactly `backends` answer every client.
    async fn served_by(&self, backends: &[&str]) -> Fallible {
        for (client, load) in &self.loads {
            only_at(&load.calls, client.name(), backends).await?;
        }
        Ok(())
    }

    /// Waits until the status shows each client in sync, with all its types in its API version.
    async fn is_in_sync(&self) -> Fallible {
        until("every client in sync in its version", SOON, async || {
            let page = http::get(self.oxds.http, "/status.json").await?;
            let status: Value = serde_json::from_slice(&page)?;
            let is_so = |(client, _): &(OldGo, GrpcLoad)| {
                let nodes = status["nodes"].as_array().into_iter().flatten();
                let mut own = nodes.filter(|node| node["id"] == client.name());
                let kinds = own.next().and_then(|node| {
                    let kinds = node["types"].as_array()?;
                    (node["in_sync"] == true).then_some(kinds)
                });
                let asked = |kind: &Value| kind["api"] == client.api();
                kinds.is_some_and(|kinds| kinds.len() == 4 && kinds.iter().all(asked))
            };
            if self.loads.iter().all(is_so) {
                Ok(Some(()))
            } else {
                Err(status["nodes"].to_string().into())
            }
        })
        .await
    }
}

/// Given calls to blue and green by weight,
/// when one edit moves all of them to green, a second endpoint of green comes, and the first dies,
/// then calls follow.
async fn follows_an_edit(cx: Context, client: OldGo) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let second = Backend::start("second").await?;
    let resources = |weights: &[(&str, u32)], greens: &[std::net::SocketAddr]| {
        [
            weighted(weights),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[blue.address]]),
            assignment("green", &[greens]),
        ]
    };
    let both = resources(&[("blue", 50), ("green", 50)], &[green.address]);
    let mesh = Mesh::start(&cx, &[client], &both).await?;
    mesh.served_by(&["blue", "green"]).await?;
    mesh.is_in_sync().await?;
    let edited = resources(&[("green", 1)], &[green.address, second.address]);
    mesh.folder.write("mesh.yaml", &edited)?;
    mesh.served_by(&["green", "second"]).await?;
    mesh.is_in_sync().await?;
    green.kill().await;
    mesh.served_by(&["second"]).await
}

/// Given three clients, two of v2 and one of v3, and a further cluster that v2 cannot express,
/// when the route is edited, then all follow, and the status shows the resources that v2 cannot express, with the
/// reasons.
async fn both_see_the_same(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let resources = |weights: &[(&str, u32)]| {
        [
            weighted(weights),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[blue.address]]),
            assignment("green", &[&[green.address]]),
            // A field of 2022.
            cluster_with(
                "modern",
                "upstream_connection_options: { set_local_interface_name_on_upstream_connections: true }",
            ),
        ]
    };
    let mesh = Mesh::start(&cx, &OldGo::ALL, &resources(&[("blue", 75), ("green", 25)])).await?;
    mesh.served_by(&["blue", "green"]).await?;
    for (_, load) in &mesh.loads {
        load.calls
            .next(1000, SOON)
            .await?
            .expect_share("blue", 0.75)?;
    }
    mesh.is_in_sync().await?;
    mesh.folder
        .write("mesh.yaml", &resources(&[("green", 100)]))?;
    mesh.served_by(&["green"]).await?;
    mesh.is_in_sync().await?;

    let page = http::get(mesh.oxds.http, "/status.json").await?;
    let status: Value = serde_json::from_slice(&page)?;
    let withheld = status["snapshot"]["types"][0]["not_representable"].to_string();
    let expected = "upstream_connection_options.set_local_interface_name_on_upstream_connections";
    if !withheld.contains("\"modern\"") || !withheld.contains(expected) {
        return Err(format!("withheld: {withheld}").into());
    }
    Ok(())
}
