//! A change that Envoys at several replicas NACK: together they pass the threshold, and all replicas return to the
//! former version (G-38).

use serde_json::Value;

use super::shared::{PREFIX, count};
use super::{SOON, Scenario};
use crate::config::Folder;
use crate::peers::envoy::Envoy;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::oxds::{Bootstrap, bootstrap_of};
use crate::peers::replica::{Publish, Replica};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Replicas, with an Envoy each.
const REPLICAS: usize = 3;
/// Nodes that may NACK a change before it is rolled back: no replica alone has more.
const THRESHOLD: &str = "2";
/// Prefix of the decisions.
const DECISIONS: &str = "w/";

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!("etcd_{}_g38_nacks_of_three_replicas_sum", release.name()),
        move |cx| sum(cx, release),
    )]
}

/// given three replicas that roll back what more than two nodes NACK, with an Envoy each / when a publish has a cluster
/// that Envoy rejects / then there is one decision, all three and a new replica serve the former version, and no Envoy
/// loses the cluster; the next publish ends the rollback and reaches every Envoy.
async fn sum(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start_three(&cx, release).await?;
    let client = etcd.connect().await?;
    let urls = etcd.urls();
    let folder = Folder::create(&cx.dir)?;
    let options = ["--on-nack", "rollback", "--nack-threshold", THRESHOLD].map(Into::into);
    publish(&cx, &urls, &folder, "ROUND_ROBIN", "first").await?;
    let mut replicas = Vec::new();
    let mut envoys = Vec::new();
    for number in 0..REPLICAS {
        let replica = Replica::start_with(&cx, &urls, &format!("r{number}"), &options).await?;
        replica.serves(1, SOON).await?;
        envoys.push(envoy_of(&cx, number, &replica).await?);
        replicas.push(replica);
    }
    all_have(&envoys, "first").await?;

    // Envoy takes this policy only with its own type of cluster. No rule of the API says that.
    publish(&cx, &urls, &folder, "CLUSTER_PROVIDED", "second").await?;
    for replica in &replicas {
        rolled_back(replica, 1).await?;
    }
    let late = Replica::start_with(&cx, &urls, "late", &options).await?;
    rolled_back(&late, 1).await?;
    replicas.push(late);
    let decisions = count(&client, &format!("{PREFIX}{DECISIONS}")).await?;
    if decisions != 1 {
        return Err(format!("{decisions} decisions, expected 1").into());
    }
    all_have(&envoys, "first").await?;

    publish(&cx, &urls, &folder, "RANDOM", "third").await?;
    all_have(&envoys, "third").await?;
    for replica in &replicas {
        rolled_back(replica, 0).await?;
    }
    Ok(())
}

/// Publishes the cluster with this policy, and this text in `alt_stat_name`.
async fn publish(cx: &Context, urls: &str, folder: &Folder, policy: &str, text: &str) -> Fallible {
    let cluster = format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: a
type: STATIC
lb_policy: {policy}
connect_timeout: 1s
alt_stat_name: {text}
"#
    );
    folder.write("a.yaml", &[cluster])?;
    let command = Publish {
        cx,
        urls,
        folder: folder.path(),
        options: &[],
    };
    command.succeeds(&[]).await
}

/// Starts an Envoy of its own folder and node at a replica.
async fn envoy_of(cx: &Context, number: usize, replica: &Replica) -> Fallible<Envoy> {
    let mut own = cx.clone();
    own.dir = cx.dir.join(format!("envoy-{number}"));
    std::fs::create_dir_all(&own.dir)?;
    let kind = Bootstrap::Envoy(Protocol::Delta);
    let file = bootstrap_of(&own, kind, replica.grpc, &format!("edge-{number}")).await?;
    Envoy::start(&own, &file).await
}

/// Waits until every Envoy has the cluster with this text.
async fn all_have(envoys: &[Envoy], text: &str) -> Fallible {
    for (number, envoy) in envoys.iter().enumerate() {
        until(&format!("Envoy {number} has {text}"), SOON, async || {
            let dump = envoy.config_dump().await?;
            let configs = dump["configs"].as_array().into_iter().flatten();
            let mut clusters = configs
                .filter_map(|config| config["dynamic_active_clusters"].as_array())
                .flatten();
            let has = |cluster: &Value| cluster["cluster"]["alt_stat_name"] == text;
            if clusters.any(has) {
                Ok(Some(()))
            } else {
                Err(dump.to_string().into())
            }
        })
        .await?;
    }
    Ok(())
}

/// Waits until a replica shows this number of rollbacks, by the NACKs of every node.
async fn rolled_back(replica: &Replica, number: usize) -> Fallible {
    let what = format!("{}: {number} rollbacks", replica.id);
    until(&what, SOON, async || {
        let rollbacks = replica.status().await?["rollbacks"].take();
        let list = rollbacks.as_array().ok_or("no rollbacks")?;
        let is_complete = |one: &Value| one["nodes"] == REPLICAS && one["name"] == "a";
        if list.len() == number && list.iter().all(is_complete) {
            Ok(Some(()))
        } else {
            Err(rollbacks.to_string().into())
        }
    })
    .await
}
