//! The status key of a replica: what other replicas and commands read (G-26, G-27, G-37).

use oxds_etcd::ReplicaStatus;
use serde_json::Value;

use super::publishing::Writer;
use super::{Client, Replica, etcd, publish, served};
use crate::client::ack_delta;
use crate::{admin, until};

/// given a replica with a client / when the client has answered a publish / then the status key has the publish as
/// served, and as settled; before, it has it only as served. The key is leased, and there again after its lease has
/// ended.
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

/// given two clients / when each answers a publish only after the next one, so that at no moment all have answered
/// everything / then each publish is settled when both have answered it, with two writes of the status key for each
/// (GB-14).
#[tokio::test]
async fn g37_settled_is_a_minimum_over_clients() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let settled = |seq: u64| move |status: &ReplicaStatus| status.settled.get("main") == Some(&seq);
    replica.reports(&etcd, "publish 1", settled(1)).await;
    let mut clients = [
        Client::connect(&replica).await,
        Client::connect(&replica).await,
    ];
    for client in &mut clients {
        client.gets(&["a"], &[]).await;
    }
    let all = |status: &ReplicaStatus| (status.streams, status.in_sync) == (2, 2);
    replica.reports(&etcd, "two clients", all).await;
    publish(&etcd, &[("a", "2")]).await;
    replica.reports(&etcd, "publish 2", served(2)).await;
    let puts = etcd.calls("Put");
    for seq in 2..5 {
        publish(&etcd, &[("a", &(seq + 1).to_string())]).await;
        let before = replica.reports(&etcd, "the next publish", served(seq + 1));
        assert_eq!(before.await.settled.get("main"), Some(&(seq - 1)));
        for client in &mut clients {
            let response = client.stream.delta().await;
            client.stream.send(&ack_delta(&response));
        }
        let after = replica.reports(&etcd, "the answers", settled(seq)).await;
        assert_eq!((after.in_sync, after.is_settled()), (0, false));
    }
    assert_eq!(etcd.calls("Put") - puts, 2 * 3);
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

/// given a replica / when it is stopped in order / then its status key is deleted before the process ends, and not by
/// the end of its lease.
#[tokio::test]
async fn g37_stopped_replica_deletes_its_status_key() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    replica.reports(&etcd, "publish 1", served(1)).await;
    let key = replica.key();
    replica.stop().await;
    assert!(etcd.get(key.as_bytes()).is_none());
    assert_eq!(etcd.calls("LeaseRevoke"), 1);
}

/// given a client that leaves / then the status has its node as away, until it connects again.
#[tokio::test]
async fn g37_node_that_has_left_is_away_until_it_is_back() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let away = async |what: &str, expected: usize| {
        until(what, async || {
            let away = admin::json(replica.server.http).await["away"].take();
            (away.as_array().unwrap().len() == expected).then_some(away)
        })
        .await
    };
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    away("connected", 0).await;
    drop(client);
    let listed = away("away", 1).await;
    assert_eq!(listed[0]["id"], "test-1");
    assert!(listed[0]["seconds_ago"].as_f64().unwrap() < 60.0);
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    away("back", 0).await;
}

/// given an etcd whose space is used up / when a replica starts / then it serves, and a finding names its missing
/// status key; when there is space again, it is written.
#[tokio::test]
async fn g26_full_etcd_is_served_without_a_status_key() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    etcd.set_full(true);
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let store = replica
        .shows("two findings", |store| store["findings"][1].is_object())
        .await;
    let findings = store["findings"].as_array().unwrap();
    for (rule, file) in [
        ("space", format!("etcd:{}", etcd.url())),
        ("status-key", format!("etcd:x/{}", replica.id)),
    ] {
        let is_named = |finding: &&Value| finding["rule"] == rule && finding["file"] == file;
        let finding = findings.iter().find(is_named).expect(rule);
        let message = finding["message"].as_str().unwrap();
        assert!(message.contains("NOSPACE"), "{finding}");
        assert_eq!(finding["severity"], "warning");
    }
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

/// given two replicas of which one has a client / then each shows both with what they serve, and marks itself; when one
/// ends, it goes with its lease; a status with hostile texts is shown as text.
#[tokio::test]
async fn g37_replicas_show_each_other() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let first = Replica::start(&[&etcd]).await;
    let second = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&second).await;
    client.gets(&["a"], &[]).await;
    let of = |store: &Value, id: &str| {
        let mut all = store["replicas"].as_array().unwrap().iter();
        all.find(|one| one["id"] == id).cloned().unwrap_or_default()
    };
    let store = first
        .shows("both replicas", |store| {
            let is_settled = of(store, &second.id)["in_sync"] == 1;
            is_settled && of(store, &first.id)["lanes"][0]["seq"] == 1
        })
        .await;
    let (own, other) = (of(&store, &first.id), of(&store, &second.id));
    assert_eq!(
        (&own["this"], &other["this"]),
        (&true.into(), &false.into())
    );
    assert_eq!(
        (&other["streams"], &other["held"]),
        (&1.into(), &false.into())
    );
    assert_eq!(
        (&other["lanes"][0]["lane"], &other["lanes"][0]["lag"]),
        (&"main".into(), &0.into())
    );

    let hostile = r#"{"id":"x","build":"<script>alert(1)</script>","lanes":{"<b>main":{"seq":9}},"streams":7}"#;
    etcd.put("/oxds/default/x/hostile", hostile);
    first
        .shows("the hostile status", |store| {
            of(store, "hostile")["streams"] == 7
        })
        .await;
    let (_, page) = admin::get(first.server.http, "/").await;
    assert!(
        page.contains("this server") && page.contains(&second.id),
        "{page}"
    );
    assert!(
        !page.contains("<script>alert") && !page.contains("<b>main"),
        "{page}"
    );

    let lease = etcd.get(second.key().as_bytes()).unwrap().lease;
    second.stop().await;
    etcd.end_lease(lease);
    first
        .shows("one replica less", |store| {
            store["replicas"].as_array().unwrap().len() == 2
        })
        .await;
}

/// given a publish with a note / then the history of the replica has its number, its writer and its note.
#[tokio::test]
async fn g37_history_has_the_publish() {
    let (etcd, _) = etcd().await;
    let mut writer = Writer::of_lane("main");
    writer.options.by = "ci@builder".into();
    writer.options.note = "more shops".into();
    writer.publish(&etcd, &[("a", "1")]).await.unwrap();
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    publish(&etcd, &[("a", "2")]).await;
    replica.serves(2).await;
    let (_, body) = admin::get(replica.server.http, "/history.json").await;
    let history: Value = serde_json::from_str(&body).unwrap();
    let of = |at: usize| &history["changes"][at]["source"]["publishes"];
    assert_eq!(of(0)[0]["seq"], 2);
    let first = &of(1)[0];
    assert_eq!((&first["lane"], &first["seq"]), (&"main".into(), &1.into()));
    assert_eq!(
        (&first["by"], &first["note"]),
        (&"ci@builder".into(), &"more shops".into())
    );
}

/// given a replica / when the database of etcd grows beyond half of its quota / then a warning names the member and the
/// remedy, and the metrics have the size; after a defragmentation it is gone.
#[tokio::test]
async fn g26_large_database_is_a_warning() {
    const QUOTA: i64 = 16 << 20;
    let (etcd, _) = etcd().await;
    etcd.set_sizes([QUOTA / 2, 1, QUOTA]);
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let sized = |size: i64| move |store: &Value| store["space"]["size"] == size;
    let store = replica.shows("the size", sized(QUOTA / 2)).await;
    assert_eq!(store["space"]["quota"], QUOTA);
    assert!(store["findings"][0].is_null(), "{store}");

    etcd.set_sizes([QUOTA * 3 / 4, 1, QUOTA]);
    let has_grown = sized(QUOTA * 3 / 4);
    // The driver reports the size by itself, so that a finding may be there before it.
    let store = replica
        .shows("a finding and its size", |store| {
            store["findings"][0].is_object() && has_grown(store)
        })
        .await;
    let finding = &store["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["rule"], &finding["file"]),
        (
            &"warning".into(),
            &"space".into(),
            &format!("etcd:{}", etcd.url()).into()
        )
    );
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("70 % of its quota of 16 MiB") && message.contains("defragment"),
        "{message}"
    );
    let (_, metrics) = admin::get(replica.server.http, "/metrics").await;
    for line in [
        "oxds_store_database_bytes 12582912",
        "oxds_store_database_quota_bytes 16777216",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }

    etcd.set_sizes([QUOTA / 4, 1, QUOTA]);
    replica
        .shows("no finding", |store| store["findings"][0].is_null())
        .await;
}
