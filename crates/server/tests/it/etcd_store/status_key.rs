//! The status key of a replica: what other replicas and commands read (G-26, G-27, G-37).

use oxds_core::etcd::ReplicaStatus;

use super::{Client, Replica, etcd, publish, served};
use crate::client::ack_delta;

/// given a replica with a client / when the client has answered a publish / then the status key has the publish as served, and as settled;
/// before, it has it only as served. The key is leased, and there again after its lease has ended.
#[tokio::test]
async fn g37_status_key_has_what_is_served_and_settled() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let first = replica.reports(&etcd, "publish 1", served(1)).await;
    assert_eq!(first.grpc, replica.server.grpc.to_string());
    assert_eq!(first.http, replica.server.http.to_string());
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    replica
        .reports(&etcd, "a client", |status| {
            (status.streams, status.in_sync) == (1, 1)
        })
        .await;

    publish(&etcd, &[("a", "2")]).await;
    let response = client.stream.delta().await;
    let pending = replica.reports(&etcd, "publish 2", served(2)).await;
    assert_eq!(
        (pending.settled.get("main"), pending.in_sync),
        (Some(&1), 0)
    );
    client.stream.send(&ack_delta(&response));
    replica
        .reports(&etcd, "settled", |status| {
            status.settled.get("main") == Some(&2)
        })
        .await;

    let lease = etcd.get(replica.key().as_bytes()).unwrap().lease;
    assert!(lease != 0 && etcd.end_lease(lease));
    let again = replica.reports(&etcd, "another lease", served(2)).await;
    assert_eq!(again.id, replica.id);
    assert_ne!(etcd.get(replica.key().as_bytes()).unwrap().lease, lease);
}

/// given an idle replica / then its status key is not written again.
#[tokio::test]
async fn g37_idle_replica_writes_nothing() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let is_settled = |status: &ReplicaStatus| status.settled.get("main") == Some(&1);
    replica.reports(&etcd, "settled", is_settled).await;
    let puts = etcd.calls("Put");
    let probes = etcd.calls("Range");
    etcd.reach(|activity| activity.calls.get("Range").copied().unwrap_or(0) > probes + 20)
        .await
        .unwrap();
    assert_eq!(etcd.calls("Put"), puts);
}

/// given an etcd whose space is used up / when a replica starts / then it serves, and a finding names its missing status key; when there is
/// space again, it is written.
#[tokio::test]
async fn g26_full_etcd_is_served_without_a_status_key() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    etcd.set_full(true);
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let store = replica
        .shows("a finding", |store| store["findings"][0].is_object())
        .await;
    let finding = &store["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["file"]),
        (&"warning".into(), &format!("etcd:x/{}", replica.id).into())
    );
    assert!(
        finding["message"].as_str().unwrap().contains("NOSPACE"),
        "{finding}"
    );
    etcd.set_full(false);
    replica
        .reports(&etcd, "a status", |status| {
            status.lanes.contains_key("main")
        })
        .await;
    replica
        .shows("no finding", |store| store["findings"][0].is_null())
        .await;
}
