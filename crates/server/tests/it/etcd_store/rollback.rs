//! One rollback of several replicas (G-38).

use oxds_types::discovery::Status;
use serde_json::Value;

use super::{Client, Replica, etcd, publish};
use crate::client::ack_delta;
use crate::{admin, until};

impl Client {
    /// NACKs the next response.
    async fn nacks(&mut self) {
        let mut request = ack_delta(&self.stream.delta().await);
        request.error_detail = Some(Status {
            message: "a: no such policy".into(),
            ..Status::default()
        });
        self.stream.send(&request);
    }
}

/// Waits until a replica serves the cluster `a` in this version.
async fn serves(replica: &Replica, version: &str) {
    until("another version", async || {
        (replica.clusters().get("a")? == version).then_some(())
    })
    .await;
}

/// Checks that status, metrics and page have the rollback of cluster `a` to a version.
async fn shows_rollback(replica: &Replica, good: &str) {
    let (key, version) = ("a", good);
    let all = admin::json(replica.server.http).await["rollbacks"].take();
    let [one] = &all.as_array().unwrap()[..] else {
        panic!("{all}");
    };
    assert_eq!((&one["name"], &one["nodes"]), (&key.into(), &2.into()));
    assert_eq!(
        (&one["rolled_back_to"], &one["nacked_by"][0]),
        (&version.into(), &Value::Null)
    );
    assert_ne!(
        (&one["version"], &one["version"]),
        (&"".into(), &version.into())
    );
    let (_, metrics) = admin::get(replica.server.http, "/metrics").await;
    assert!(
        metrics.lines().any(|line| line == "oxds_rolled_back 1"),
        "{metrics}"
    );
    let (_, page) = admin::get(replica.server.http, "/").await;
    assert!(page.contains("2 nodes of all replicas"), "{page}");
}

/// given three replicas, of which two have clients / when one client of each NACKs a publish / then all replicas serve
/// the former version, and a new one from its start; clients that accepted the publish get the former version. The next
/// publish ends the rollback.
#[tokio::test]
async fn g38_replicas_roll_back_together() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let replicas = [
        Replica::rolling_back(&[&etcd], 1).await,
        Replica::rolling_back(&[&etcd], 1).await,
        Replica::rolling_back(&[&etcd], 1).await,
    ];
    let mut clients = Vec::new();
    for replica in &replicas {
        replica.serves(1).await;
    }
    for (at, node) in [(0, "accepting"), (0, "nacking"), (1, "other")] {
        let mut client = Client::of_node(&replicas[at], node).await;
        client.gets(&["a", "b"], &[]).await;
        clients.push(client);
    }
    for replica in &replicas {
        let settled = |status: &oxds_etcd::ReplicaStatus| status.is_settled();
        replica.reports(&etcd, "settled", settled).await;
    }
    let good = replicas[0].clusters()["a"].clone();
    publish(&etcd, &[("a", "2"), ("b", "1")]).await;
    let [accepting, nacking, other] = &mut clients[..] else {
        panic!("three clients");
    };
    accepting.gets(&["a"], &[]).await;
    nacking.nacks().await;
    other.nacks().await;
    for replica in &replicas {
        serves(replica, &good).await;
        replica.serves(2).await;
    }
    accepting.gets(&["a"], &[]).await;
    assert_eq!(accepting.has["a"], good);
    let store = replicas[2].store().await;
    let finding = &store["findings"][0];
    let key = "etcd:w/main/r/envoy.config.cluster.v3.Cluster/a";
    assert_eq!(
        (&finding["rule"], &finding["file"]),
        (&"rolled-back".into(), &key.into())
    );
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("2 nodes NACKed it: a: no such policy"),
        "{message}"
    );

    for replica in &replicas {
        shows_rollback(replica, &good).await;
    }

    let late = Replica::rolling_back(&[&etcd], 1).await;
    late.serves(2).await;
    assert_eq!(late.clusters()["a"], good);
    assert_eq!(late.names(), ["a", "b"]);

    publish(&etcd, &[("a", "3"), ("b", "1")]).await;
    for replica in replicas.iter().chain([&late]) {
        replica.serves(3).await;
        assert_ne!(replica.clusters()["a"], good);
        replica
            .shows("no finding", |store| store["findings"][0].is_null())
            .await;
        until("no rollback", async || {
            let (_, metrics) = admin::get(replica.server.http, "/metrics").await;
            metrics.contains("oxds_rolled_back 0\n").then_some(())
        })
        .await;
    }
    until("no keys of the rollback", async || {
        let decision = etcd.get(key.replacen("etcd:", "/oxds/default/", 1).as_bytes());
        decision.is_none().then_some(())
    })
    .await;
}

/// given two replicas, of which one has a client that never accepted a former version / when a client of the other
/// NACKs / then there is no rollback, and this is reported.
#[tokio::test]
async fn g38_lacking_client_prevents_the_rollback() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let first = Replica::rolling_back(&[&etcd], 0).await;
    let second = Replica::rolling_back(&[&etcd], 0).await;
    let mut nacking = Client::connect(&first).await;
    nacking.gets(&["a"], &[]).await;
    let mut silent = Client::connect(&second).await;
    let _unanswered = silent.stream.delta().await;
    first
        .reports(&etcd, "settled", |status| {
            status.in_sync == 1 && status.is_settled()
        })
        .await;
    publish(&etcd, &[("a", "2")]).await;
    nacking.nacks().await;
    let store = first
        .shows("a finding", |store| store["findings"][0].is_object())
        .await;
    let finding = &store["findings"][0];
    assert_eq!(finding["rule"], "no-rollback");
    let message = finding["message"].as_str().unwrap();
    let text = format!("clients of {} had not accepted a former version", second.id);
    assert!(message.contains(&text), "{message}");
    let bad = first.clusters()["a"].clone();
    assert_eq!(second.clusters()["a"], bad);
}
