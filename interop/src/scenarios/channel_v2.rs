//! Our own channel, configured in API v2: by the go-control-plane of that time, and by `oxds serve` (gRFC A30): C-50,
//! C-51, C-52, C-54, C-57, C-60.

use std::net::SocketAddr;
use std::time::Duration;

use oxds_channel::{Bootstrap, TransportPolicy};
use serde_json::Value;

use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, in_v2, routes};
use crate::peers::channel::ChannelLoad;
use crate::peers::oxds::Oxds;
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::wait::until;
use crate::{Context, Fallible, http};

/// Pause between two versions of go-control-plane's folder, which it reads ten times a second.
const NEXT_VERSION: Duration = Duration::from_millis(300);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "channel_in_v2_follows_go_control_plane".to_owned(),
            follows_go_control_plane,
        ),
        Scenario::new(
            "channel_in_v2_and_in_v3_see_the_same".to_owned(),
            both_see_the_same,
        ),
        Scenario::new(
            "channel_in_v2_reports_its_load".to_owned(),
            reports_its_load,
        ),
    ]
}

/// All calls to one backend, by a cluster of its name.
pub(super) fn all_to(name: &str, backend: &Backend) -> [String; 4] {
    [
        api_listener(),
        routes(&[(name, 1)]),
        cluster(name),
        assignment(name, &[&[backend.address]]),
    ]
}

/// A bootstrap with these servers in order of priority, each with its features.
pub(super) fn bootstrap(
    node_id: &str,
    servers: &[(SocketAddr, &[&str])],
    policy: TransportPolicy,
) -> Fallible<Bootstrap> {
    let entry = |(address, features): &(SocketAddr, &[&str])| {
        serde_json::json!({
            "server_uri": address.to_string(),
            "channel_creds": [{ "type": "insecure" }],
            "server_features": features,
        })
    };
    let servers: Vec<Value> = servers.iter().map(entry).collect();
    let json = serde_json::json!({ "xds_servers": servers, "node": { "id": node_id } });
    Ok(Bootstrap::from_json(&json.to_string())?.with_transport(|_| policy))
}

pub(super) async fn served_by(load: &ChannelLoad, backends: &[&str]) -> Fallible {
    only_at(&load.calls, "calls", backends).await
}

/// Given go-control-plane of v2, which does not know v3, when a channel uses v2, an endpoint moves, then route and
/// cluster are replaced, then the cluster changes to a form that gRPC does not know, then calls follow, and continue
/// with the last valid form; the control plane prints the client's identity and the reason of the NACK.
async fn follows_go_control_plane(cx: Context) -> Fallible {
    let (blue, red) = (Backend::start("blue").await?, Backend::start("red").await?);
    let folder = Folder::create(&cx.dir)?;
    let write = |resources: &[String]| {
        let resources: Vec<_> = resources.iter().map(|text| in_v2(text)).collect();
        folder.write("mesh.yaml", &resources)
    };
    write(&all_to("blue", &blue))?;
    let mut control_plane = ThirdPartyControlPlane::serve(&cx, ThirdParty::GoV2, &folder).await?;
    let servers: [(_, &[&str]); 1] = [(control_plane.grpc, &[])];
    let load = ChannelLoad::start_with(bootstrap("old", &servers, TransportPolicy::Auto)?)?;
    served_by(&load, &["blue"]).await?;
    let node = control_plane.asked_by(SOON).await?;
    if node != concat!("old oxds ", env!("CARGO_PKG_VERSION")) {
        return Err(format!("it was asked by {node:?}").into());
    }

    write(&all_to("blue", &red))?;
    served_by(&load, &["red"]).await?;
    // This release does not respond to an added name while its version is unchanged; so each edit has new names.
    let new_versions = async {
        for version in 0_u32.. {
            let [listener, routes, new, endpoints] = all_to("green", &blue);
            let [_, _, old, old_endpoints] = all_to("blue", &red);
            let listener = format!("{listener}# {version}\n");
            // Clusters that the route has left stay, because this release does not make before it breaks.
            write(&[listener, routes, new, endpoints, old, old_endpoints])?;
            tokio::time::sleep(NEXT_VERSION).await;
        }
        Fallible::Ok(())
    };
    tokio::select! {
        served = served_by(&load, &["blue"]) => served?,
        failed = new_versions => failed?,
    }

    let mut refused = all_to("green", &blue);
    refused[2] = cluster_with("green", "lb_policy: MAGLEV");
    write(&refused)?;
    let nack = control_plane.nack(SOON).await?;
    if !(nack.contains("Cluster") && nack.contains("green") && nack.contains("lb_policy")) {
        return Err(format!("the NACK lacks name or reason: {nack}").into());
    }
    load.calls.next(SETTLED, SOON).await?;
    load.calls.none_failed()
}

/// Given go-control-plane of v2, and a cluster whose load it requests,
/// when a channel calls, and ends,
/// then the reports, by the v2 service, have every answered call, and at most the cancelled ones in addition.
async fn reports_its_load(cx: Context) -> Fallible {
    let blue = Backend::start("blue").await?;
    let folder = Folder::create(&cx.dir)?;
    let mut resources = all_to("blue", &blue);
    resources[2] = cluster_with("blue", "lrs_server: { self: {} }");
    folder.write("mesh.yaml", &resources.map(|text| in_v2(&text)))?;
    let control_plane = ThirdPartyControlPlane::serve(&cx, ThirdParty::GoV2, &folder).await?;
    let servers: [(_, &[&str]); 1] = [(control_plane.grpc, &[])];
    let load = ChannelLoad::start_with(bootstrap("old", &servers, TransportPolicy::Auto)?)?;
    served_by(&load, &["blue"]).await?;
    let reported = async || Ok(control_plane.load_of("blue").map(drop));
    until("a report while calls go on", SOON, reported).await?;
    let calls = load.calls.clone();
    drop(load);
    until("a report of every call", SOON, async || {
        let counts = calls.since(0);
        let sums = control_plane.load_of("blue").unwrap_or_default();
        match sums[..] {
            [issued, succeeded, failed]
                if succeeded == counts.total()
                    && issued == succeeded + failed
                    && failed <= ChannelLoad::WORKERS =>
            {
                Ok(Some(()))
            }
            _ => Err(format!("{sums:?} of {counts}").into()),
        }
    })
    .await?;
    calls.none_failed()
}

/// Given `oxds serve` over v3 resources,
/// when one channel uses v2 and one v3, and the route is edited,
/// then both follow, and the status shows each in sync in its version.
async fn both_see_the_same(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let folder = Folder::create(&cx.dir)?;
    folder.write("mesh.yaml", &all_to("blue", &blue))?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let versions = [
        ("v2", TransportPolicy::V2Only),
        ("v3", TransportPolicy::V3Only),
    ];
    let mut loads = Vec::new();
    for (name, policy) in versions {
        let servers: [(_, &[&str]); 1] = [(oxds.grpc, &["xds_v3"])];
        loads.push(ChannelLoad::start_with(bootstrap(name, &servers, policy)?)?);
    }
    for load in &loads {
        served_by(load, &["blue"]).await?;
    }
    folder.write("mesh.yaml", &all_to("green", &green))?;
    for load in &loads {
        served_by(load, &["green"]).await?;
        load.calls.none_failed()?;
    }
    for (name, _) in versions {
        asks_in(&oxds, name, name).await?;
    }
    Ok(())
}

/// Waits until the status shows the node in sync, with all four types requested in this version.
pub(super) async fn asks_in(oxds: &Oxds, node_id: &str, api: &str) -> Fallible {
    let what = format!("{node_id} in sync in {api}");
    until(&what, SOON, async || {
        let page = http::get(oxds.http, "/status.json").await?;
        let status: Value = serde_json::from_slice(&page)?;
        let mut nodes = status["nodes"].as_array().into_iter().flatten();
        let node = nodes.find(|node| node["id"] == node_id);
        let is_so = node.is_some_and(|node| {
            let kinds = node["types"].as_array().map_or(&[][..], Vec::as_slice);
            let in_version = kinds.iter().all(|kind| kind["api"] == api);
            node["in_sync"] == true && kinds.len() == 4 && in_version
        });
        if is_so {
            Ok(Some(()))
        } else {
            Err(status["nodes"].to_string().into())
        }
    })
    .await
}
