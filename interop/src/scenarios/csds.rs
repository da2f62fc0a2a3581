//! A standard CSDS client against `oxds serve`, compared with Envoy's own state; `oxds csds` against clients.

use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;

use oxds_channel::{ClientPool, XdsChannel};
use serde_json::Value;

use super::envoy::{Link, Mesh, REFUSAL};
use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::admin::Admin;
use crate::peers::csds::{self as reader, Seen};
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap, csds};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Node id of the bootstrap files.
const NODE: &str = "interop-1";

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "csds_reports_envoys_resources".to_owned();
    let reads = |client: Client, name: &str| {
        let name = format!("oxds_csds_reads_{name}");
        Scenario::new(name, move |cx| oxds_csds_reads(cx, client))
    };
    vec![
        Scenario::new(name, tells_what_envoy_has),
        reads(Client::GrpcCore, "grpc_core"),
        reads(Client::Channel, "our_channel"),
    ]
}

/// Clients that serve CSDS.
#[derive(Clone, Copy, Debug)]
enum Client {
    GrpcCore,
    Channel,
}

impl Client {
    /// Spelling of the target `xds:///shop` by this client.
    fn scope(self) -> &'static str {
        match self {
            Self::GrpcCore => "xds:/shop",
            Self::Channel => "xds:///shop",
        }
    }
}

/// Given a client that serves CSDS, configured by `oxds serve`,
/// when `oxds csds` reads it,
/// then table, JSON and YAML show every resource, `ACKED`, with contents, and the exit code is 0;
/// when a cluster changes to a form that gRPC rejects, then it is `NACKED` with its reason, and the exit code is 1.
async fn oxds_csds_reads(cx: Context, client: Client) -> Fallible {
    let blue = Backend::start("blue").await?;
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    let endpoint = assignment("blue", &[&[blue.address]]);
    let mesh = |cluster: String| [routes(&[("blue", 1)]), cluster, endpoint.clone()];
    folder.write("mesh.yaml", &mesh(cluster("blue")))?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let (_alive, address) = start(&cx, client, &file).await?;
    until("a table of ACKED resources", SOON, async || {
        let (table, code) = csds(&cx, address, "table").await?;
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let acked = rows.iter().filter(|row| row.get(4) == Some(&"ACKED"));
        let mut kinds: Vec<&str> = acked.map(|row| row[2]).collect();
        kinds.sort_unstable();
        let whole = kinds == ["cds", "eds", "lds", "rds"] && rows.len() == 5 && code == 0;
        whole.then_some(Some(())).ok_or_else(|| table.into())
    })
    .await?;

    let (json, _) = csds(&cx, address, "json").await?;
    let json: Value = serde_json::from_str(&json)?;
    let shown = &json[0]["config"][0];
    let entries = shown["generic_xds_configs"]
        .as_array()
        .ok_or("no resources in the JSON")?;
    let is_whole = |entry: &Value| {
        entry["xds_config"]["@type"] == entry["type_url"] && entry["client_status"] == "ACKED"
    };
    if shown["client_scope"] != client.scope()
        || entries.len() != 4
        || !entries.iter().all(is_whole)
    {
        return Err(format!("as JSON: {json:#}").into());
    }
    let (yaml, _) = csds(&cx, address, "yaml").await?;
    let scope = format!("client_scope: {}", client.scope());
    for part in [scope.as_str(), "client_status: ACKED", "cluster_name: blue"] {
        if !yaml.contains(part) {
            return Err(format!("no {part:?} in the YAML: {yaml}").into());
        }
    }

    folder.write(
        "mesh.yaml",
        &mesh(cluster_with("blue", "lb_policy: MAGLEV")),
    )?;
    until("a NACKED cluster", SOON, async || {
        let (table, code) = csds(&cx, address, "table").await?;
        let is_shown = |line: &str| line.contains("NACKED") && line.contains("blue");
        let shown = table.lines().any(is_shown) && code == 1;
        shown.then_some(Some(())).ok_or_else(|| table.into())
    })
    .await
}

/// The client, and the address of its CSDS.
async fn start(
    cx: &Context,
    client: Client,
    bootstrap: &Path,
) -> Fallible<(Box<dyn Any>, SocketAddr)> {
    Ok(match client {
        Client::GrpcCore => {
            let (load, address) = Grpc::core_with_csds(cx, bootstrap).await?;
            (Box::new(load), address)
        }
        Client::Channel => {
            let bootstrap =
                oxds_channel::Bootstrap::from_json(&std::fs::read_to_string(bootstrap)?)?;
            let pool = ClientPool::new(bootstrap);
            let admin = Admin::serve(&pool).await?;
            let address = admin.address;
            let channel = XdsChannel::builder("xds:///shop").clients(pool).build()?;
            (Box::new((channel, admin)), address)
        }
    })
}

/// Given an Envoy in sync,
/// when CSDS is read, by Fetch and by stream,
/// then every resource is `SYNCED`, and each cluster has Envoy's version of it;
/// when a cluster appears that Envoy rejects,
/// then it is `ERROR`, with Envoy's reason, and the others stay `SYNCED` (S-68);
/// and a matcher that fits no node returns nothing.
async fn tells_what_envoy_has(cx: Context) -> Fallible {
    let weights = [("blue", 50), ("green", 50)];
    let mesh = Mesh::start(&cx, Protocol::Delta, Link::Direct, &weights).await?;
    mesh.served_by(&["blue", "green"]).await?;
    let seen = settled(&cx, &mesh, |seen| seen.iter().all(is_synced)).await?;
    let named: Vec<_> = seen.iter().map(|s| (&*s.kind, &*s.name)).collect();
    let expected = [
        ("Cluster", "blue"),
        ("Cluster", "green"),
        ("ClusterLoadAssignment", "blue"),
        ("ClusterLoadAssignment", "green"),
        ("Listener", "shop"),
        ("RouteConfiguration", "shop-routes"),
    ];
    if named != expected {
        return Err(format!("CSDS shows {named:?}").into());
    }
    let mut versions = mesh.envoy.cluster_versions().await?;
    versions.sort();
    let shown = seen.iter().filter(|s| s.kind == "Cluster");
    let shown: Vec<_> = shown.map(|s| (s.name.clone(), s.version.clone())).collect();
    if shown != versions {
        return Err(format!("CSDS shows {shown:?}, Envoy has {versions:?}").into());
    }

    let poison = cluster_with("poison", "lb_policy: CLUSTER_PROVIDED");
    mesh.folder.write("poison.yaml", &[poison])?;
    settled(&cx, &mesh, |seen| {
        let (poisoned, others): (Vec<_>, Vec<_>) = seen.iter().partition(|s| s.name == "poison");
        let refused =
            |s: &&Seen| s.status == "ERROR" && s.client == "NACKED" && s.reason.contains(REFUSAL);
        poisoned.len() == 1 && poisoned.iter().all(refused) && others.into_iter().all(is_synced)
    })
    .await?;

    match reader::read(&cx, mesh.oxds.grpc, "someone-else").await? {
        none if none.is_empty() => Ok(()),
        some => Err(format!("a matcher that fits no node returns {some:?}").into()),
    }
}

/// Waits until the CSDS state of our node, which must not be empty, satisfies `wanted`.
async fn settled(
    cx: &Context,
    mesh: &Mesh,
    wanted: impl Fn(&[Seen]) -> bool,
) -> Fallible<Vec<Seen>> {
    until("CSDS as expected", SOON, async || {
        let seen = reader::read(cx, mesh.oxds.grpc, NODE).await?;
        if !seen.is_empty() && wanted(&seen) {
            Ok(Some(seen))
        } else {
            Err(format!("{seen:?}").into())
        }
    })
    .await
}

/// In sync, acknowledged, and shown with its content.
fn is_synced(seen: &Seen) -> bool {
    seen.node == NODE
        && seen.status == "SYNCED"
        && seen.client == "ACKED"
        && seen.content == seen.kind
        && !seen.version.is_empty()
}
