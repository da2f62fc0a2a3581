//! Our client's sources beside ADS, with other control planes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::source::{Grpc, Rest};
use oxds_client::{Bootstrap, Source, Typed, Update, Watch, XdsClient};
use oxds_core::resource::{Assignment, Cluster, Listener, RouteConfig};
use serde_json::json;
use tokio::time::timeout;

use super::{SOON, Scenario};
use crate::config::{Folder, LISTENER, ROUTES, api_listener, assignment, cluster, routes};
use crate::peers::rest::RestPlane;
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::{Context, Fallible};

pub(super) fn scenarios() -> Vec<Scenario> {
    let per_type = |name: &str, delta| {
        Scenario::new(name.to_owned(), move |cx| {
            per_type_follows_an_edit(cx, delta)
        })
    };
    vec![
        per_type("source_per_type_sotw_follows_an_edit", false),
        per_type("source_per_type_delta_follows_an_edit", true),
        Scenario::new(
            "source_rest_follows_an_edit".to_owned(),
            rest_follows_an_edit,
        ),
    ]
}

fn client() -> Fallible<XdsClient> {
    let bootstrap = Bootstrap::without_servers().node_id("interop").build()?;
    Ok(XdsClient::new(bootstrap.into()))
}

async fn next<T: Typed>(watch: &mut Watch<T>) -> Fallible<Update<Arc<T>>> {
    let next = timeout(SOON, watch.next()).await;
    let next = next.map_err(|_| "no update in time")?;
    next.ok_or_else(|| "the client is gone".into())
}

/// Returns the next update, which must be a resource.
async fn value<T: Typed>(watch: &mut Watch<T>) -> Fallible<Arc<T>> {
    match next(watch).await? {
        Update::Changed(Ok(value)) => Ok(value),
        Update::Changed(Err(error)) | Update::Ambient(Some(error)) => Err(error.to_string().into()),
        Update::Ambient(None) => Err("an ambient error was cleared".into()),
    }
}

/// Returns the next update, which must be a not-found error.
async fn gone<T: Typed>(watch: &mut Watch<T>) -> Fallible {
    match next(watch).await? {
        Update::Changed(Err(_)) => Ok(()),
        _ => Err("a deleted resource is still delivered".into()),
    }
}

fn write(folder: &Folder, service: &str, weight: &[(&str, u32)]) -> Fallible {
    let here = "127.0.0.1:1".parse()?;
    let cluster = cluster(service);
    let assignment = assignment(service, &[&[here]]);
    folder.write(
        "mesh.yaml",
        &[api_listener(), routes(weight), cluster, assignment],
    )
}

/// Given go-control-plane, with a separate service for each type (C-271), over SotW or delta,
/// when its folder is edited,
/// then each type follows: the route changes, the new cluster is added, the old one is removed.
async fn per_type_follows_an_edit(cx: Context, delta: bool) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    write(&folder, "blue", &[("blue", 1)])?;
    let control_plane = ThirdPartyControlPlane::serve(&cx, ThirdParty::Go, &folder).await?;
    let grpc = Grpc::new(&control_plane.grpc.to_string())?;
    let source: Source = if delta {
        grpc.delta().into()
    } else {
        grpc.into()
    };
    let client = client()?;
    let mut listener = client.watch_from::<Listener>(&source, LISTENER)?;
    let mut routes = client.watch_from::<RouteConfig>(&source, ROUTES)?;
    let mut blue = client.watch_from::<Cluster>(&source, "blue")?;
    let mut endpoints = client.watch_from::<Assignment>(&source, "blue")?;
    value(&mut listener).await?;
    value(&mut routes).await?;
    value(&mut blue).await?;
    value(&mut endpoints).await?;
    write(&folder, "green", &[("green", 1)])?;
    value(&mut routes).await?;
    gone(&mut blue).await?;
    let mut green = client.watch_from::<Cluster>(&source, "green")?;
    let mut endpoints = client.watch_from::<Assignment>(&source, "green")?;
    value(&mut green).await?;
    value(&mut endpoints).await?;
    Ok(())
}

/// Replaces the clusters of the REST server.
pub(super) fn publish(folder: &Path, version: &str, clusters: &[(&str, &str)]) -> Fallible {
    let resources: Vec<_> = clusters
        .iter()
        .map(|(name, service)| {
            json!({
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": name,
                "type": "EDS",
                "eds_cluster_config": {"eds_config": {"ads": {}}, "service_name": service},
            })
        })
        .collect();
    let response = json!({"version_info": version, "resources": resources});
    let new = folder.join("clusters.new");
    std::fs::write(&new, response.to_string())?;
    Ok(std::fs::rename(new, folder.join("clusters.json"))?)
}

/// Given a Python REST server (C-266, C-267, C-268),
/// when its resources change, fail and are fixed,
/// then the client follows, keeps its resources in between, sends its version, and gets 304 if nothing has changed.
async fn rest_follows_an_edit(cx: Context) -> Fallible {
    publish(&cx.dir, "1", &[("a", "one"), ("b", "one")])?;
    let mut plane = RestPlane::serve(&cx, &cx.dir).await?;
    let rest = Rest::new(&format!("http://{}", plane.http))?;
    let source = rest
        .refresh_delay(Duration::from_millis(100))
        .request_timeout(SOON)
        .into();
    let client = client()?;
    let mut a = client.watch_from::<Cluster>(&source, "a")?;
    let mut b = client.watch_from::<Cluster>(&source, "b")?;
    expect(&mut a, "one").await?;
    expect(&mut b, "one").await?;
    plane.polled("clusters - interop 200", SOON).await?;
    plane.polled("clusters 1 interop 304", SOON).await?;
    publish(&cx.dir, "2", &[("a", "two")])?;
    expect(&mut a, "two").await?;
    gone(&mut b).await?;
    std::fs::remove_file(cx.dir.join("clusters.json"))?;
    plane.polled("clusters 2 interop 503", SOON).await?;
    match next(&mut a).await? {
        Update::Ambient(Some(error)) if error.to_string().contains("HTTP 503") => {}
        other => return Err(format!("not an ambient error: {other:?}").into()),
    }
    publish(&cx.dir, "3", &[("a", "three"), ("b", "three")])?;
    expect(&mut a, "three").await?;
    // If the watch of b was open then, it got the ambient error, too; its end in any case.
    loop {
        if let Update::Changed(Ok(found)) = next(&mut b).await? {
            return match &*found.eds_service_name {
                "three" => Ok(()),
                other => Err(format!("b is of {other}").into()),
            };
        }
    }
}

async fn expect(watch: &mut Watch<Cluster>, service: &str) -> Fallible {
    let found = value(watch).await?;
    if &*found.eds_service_name == service {
        Ok(())
    } else {
        Err(format!("{} instead of {service}", found.eds_service_name).into())
    }
}
