//! A standard client of CSDS against `oxds serve`, beside what Envoy says of itself.

use super::envoy::{Link, Mesh, REFUSAL};
use super::{SOON, Scenario};
use crate::config::cluster_with;
use crate::peers::csds::{self, Seen};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// The node id that the bootstrap files have.
const NODE: &str = "interop-1";

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "csds_tells_what_envoy_has".to_owned();
    vec![Scenario::new(name, tells_what_envoy_has)]
}

/// Given an Envoy in sync,
/// when CSDS is read, by Fetch and by stream,
/// then every resource is `SYNCED`, and each cluster has the version that Envoy has of it;
/// when a cluster appears that Envoy refuses,
/// then it is `ERROR`, with Envoy's reason, and the others stay `SYNCED` (S-68);
/// and a matcher that fits no node yields nothing.
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
    let told = seen.iter().filter(|s| s.kind == "Cluster");
    let told: Vec<_> = told.map(|s| (s.name.clone(), s.version.clone())).collect();
    if told != versions {
        return Err(format!("CSDS shows {told:?}, Envoy has {versions:?}").into());
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

    match csds::read(&cx, mesh.oxds.grpc, "someone-else").await? {
        nobody if nobody.is_empty() => Ok(()),
        somebody => Err(format!("a matcher that fits nobody yields {somebody:?}").into()),
    }
}

/// Waits until what CSDS says of our node, which must be something, is as `wanted`.
async fn settled(
    cx: &Context,
    mesh: &Mesh,
    wanted: impl Fn(&[Seen]) -> bool,
) -> Fallible<Vec<Seen>> {
    until("CSDS as expected", SOON, async || {
        let seen = csds::read(cx, mesh.oxds.grpc, NODE).await?;
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
