//! Publishes while a replica follows: members that die, compaction, slow servers, keys changed by hand (G-14, G-17 …
//! G-20, G-23, G-24).

use http::StatusCode;
use std::future::ready;
use std::time::Duration;

use oxds_etcd::publisher::{PublishOutcome, Wanted};
use oxds_server::Store as _;
use oxds_server::store::etcd::writer::{self, Session};
use oxds_server::store::etcd::{EtcdStore, Segment};
use tokio::time::timeout;

use super::publishing::{Writer, entry_of, resource};
use super::{Client, Replica, etcd, key, options, prefix, publish, value};
use crate::SOON;

/// given two members / when the watched one is killed and another publish comes / then the replica resumes at the other
/// one, and the client gets the difference only.
#[tokio::test]
async fn g17_killed_member_is_replaced_and_nothing_resent() {
    let (etcd, other) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let replica = Replica::start(&[&etcd, &other]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b"], &[]).await;
    for round in ["2", "3", "4"] {
        let member = replica.store().await["member"].as_str().unwrap().to_owned();
        let (dead, alive) = if member == etcd.url() {
            (&etcd, &other)
        } else {
            (&other, &etcd)
        };
        dead.kill();
        publish(alive, &[("a", round), ("b", "1")]).await;
        client.gets(&["a"], &[]).await;
        let store = replica
            .shows("the other member", |store| store["connected"] == true)
            .await;
        assert_eq!(store["member"], alive.url());
        dead.restart().await.unwrap();
    }
    // Heads were compared and watches resumed: nothing was read again.
    assert_eq!(replica.store().await["reads"], 1);
}

/// given a replica that is cut off / when publishes come and are compacted / then it reads everything once, and the
/// client gets the difference, removals included.
#[tokio::test]
async fn g18_compacted_revision_leads_to_the_difference() {
    let (etcd, writers) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1"), ("c", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b", "c"], &[]).await;

    etcd.kill();
    publish(&writers, &[("a", "2"), ("b", "1"), ("c", "1")]).await;
    publish(&writers, &[("a", "2"), ("b", "1"), ("d", "1")]).await;
    writers.compact(writers.revision()).unwrap();
    etcd.restart().await.unwrap();

    client.gets(&["a", "d"], &["c"]).await;
    replica.serves(3).await;
    assert_eq!(replica.store().await["reads"], 2);
}

/// given a publish that needs a stage / when it is made / then the client gets it in one response, and the moves are no
/// change.
#[tokio::test]
async fn g19_staged_publish_is_one_change() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    let names: Vec<String> = (0..60).map(|number| format!("c{number:02}")).collect();
    let clusters: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "x")).collect();
    let mut writer = Writer::of_lane("main");
    writer.options.request_limit = 3_000;
    writer.publish(&etcd, &clusters).await.unwrap();

    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    client.gets(&names, &["a"]).await;
    replica.serves(2).await;
    publish(&etcd, &[("b", "1")]).await;
    client.gets(&["b"], &names).await;
}

/// given many small values, and large ones after them / when a replica and a writer read them that accept responses of
/// 24 KiB / then they read fewer keys at once, and serve and publish all of them.
#[tokio::test]
async fn g19_large_values_after_small_ones_are_read_in_parts() {
    let (etcd, _) = etcd().await;
    let large = "x".repeat(120);
    let small = (0..300).map(|number| (format!("a{number:03}"), "1"));
    let all = small.chain((0..200).map(|number| (format!("b{number:03}"), &*large)));
    let all: Vec<_> = all.collect();
    let clusters: Vec<_> = all.iter().map(|(name, text)| (&**name, *text)).collect();
    publish(&etcd, &clusters).await;
    let mut limited = options(&[&etcd]);
    limited.client = limited.client.max_response(24 << 10);
    let mut session = Session::new(limited.endpoints.clone(), limited.client.clone());
    let replica = Replica::of(limited, None).await;
    replica.serves(1).await;
    assert_eq!(replica.names().len(), 500);
    assert_eq!(replica.store().await["reads"], 1);

    let published = writer::read(&mut session, &prefix()).await.unwrap();
    let main = &published[&Segment::lane("main").unwrap()];
    assert_eq!((main.entries.len(), main.is_vouched), (500, true));
    let (entry, stored) = entry_of(&resource("c", "1"));
    let wanted = Wanted::Changes([(entry, Some(stored))].into());
    let options = Writer::of_lane("main").options;
    let wanted = ready(Some(wanted));
    let outcome = writer::publish(&mut session, options, wanted, |_| true, |_| ()).await;
    assert!(
        matches!(outcome, Ok(PublishOutcome::Published { seq: 2, .. })),
        "{outcome:?}"
    );
    replica.serves(2).await;
}

/// given a watched member that stops / when its progress request is not answered / then the replica uses the other
/// member, and names it.
#[tokio::test]
async fn g20_silent_member_is_left() {
    let (etcd, other) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let mut options = options(&[&etcd, &other]);
    options.timing.answer = Duration::from_secs(2);
    let replica = Replica::of(options, None).await;
    replica.serves(1).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    let member = replica.store().await["member"].clone();
    let (silent, alive) = if member == etcd.url() {
        (&etcd, &other)
    } else {
        (&other, &etcd)
    };
    silent.set_silent(true);
    publish(alive, &[("a", "2")]).await;
    client.gets(&["a"], &[]).await;
    let store = replica
        .shows("the other member", |store| store["connected"] == true)
        .await;
    assert_eq!(store["member"], alive.url());
}

/// given a server that takes no updates / when there are many publishes / then they are few updates, and the last one
/// has the last publish.
#[tokio::test]
async fn g23_publishes_coalesce_for_a_slow_server() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "0")]).await;
    let (mut store, _unusable) = EtcdStore::new(options(&[&etcd]));
    let first = timeout(SOON, store.next()).await.unwrap().unwrap();
    assert_eq!(first.changes.upserts.len(), 1);
    for number in 1..=30 {
        publish(&etcd, &[("a", &number.to_string())]).await;
    }
    let mut updates = 0;
    let last = loop {
        let update = timeout(SOON, store.next()).await.unwrap().unwrap();
        updates += 1;
        let text = String::from_utf8(update.position.unwrap().to_vec()).unwrap();
        if text.contains("\"seq\":31") {
            break update.changes;
        }
    };
    // One update waits for the server; the others may be merged as they come.
    assert!(updates <= 5, "{updates} updates of 30 publishes");
    assert_eq!(last.upserts.len(), 1);
}

/// given an etcd that is away / then the replica serves as before, new clients too, and is ready; the status has the
/// cause. When etcd is back, clients get the difference only.
#[tokio::test]
async fn g24_replica_serves_without_etcd() {
    let (etcd, writers) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b"], &[]).await;

    etcd.kill();
    let store = replica
        .shows("a lost connection", |store| store["connected"] == false)
        .await;
    assert!(store["cause"].as_str().unwrap().contains(&etcd.url()));
    assert!(store["since_seconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(store["lanes"][0]["seq"], 1);
    let (status, text) = replica.ready().await;
    assert!(
        status == StatusCode::OK && text.contains("not connected to the store"),
        "{text}"
    );
    replica.server.counts("oxds_store_connected 0").await;
    let mut new = Client::connect(&replica).await;
    new.gets(&["a", "b"], &[]).await;

    publish(&writers, &[("a", "2"), ("b", "1")]).await;
    etcd.restart().await.unwrap();
    client.gets(&["a"], &[]).await;
    new.gets(&["a"], &[]).await;
    replica.serves(2).await;
}

/// given keys that are changed without a publish / then they are not served, and a finding names each until the next
/// publish.
#[tokio::test]
async fn g14_keys_changed_by_hand_are_findings() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let before = value(&etcd, &key("a"));
    etcd.delete(key("a"));
    let store = replica
        .shows("a finding", |store| store["findings"][0].is_object())
        .await;
    let finding = &store["findings"][0];
    assert_eq!(
        finding["file"],
        "etcd:l/main/r/envoy.config.cluster.v3.Cluster/a"
    );
    assert_eq!(finding["rule"], "unpublished");
    assert_eq!(replica.names(), ["a", "b"]);
    etcd.put(key("a"), before.to_vec());
    replica
        .shows("no finding", |store| store["findings"][0].is_null())
        .await;
}

/// given a resource with a field that this build does not know, and one of a type of the user's own / when they are
/// published / then they are served with the bytes and versions as written, and a warning names the key of the first.
/// It ends with the field.
#[tokio::test]
async fn g2_unknown_fields_are_served_and_reported() {
    let (etcd, _) = etcd().await;
    // Field 5000 as a number.
    let newer = crate::cluster("a", &[0xc0, 0xb8, 0x02, 0x01]);
    let own = oxds_types::ResourceType::from_type_url("type.googleapis.com/acme.Quota");
    let (own, _) = own.unwrap();
    let quota = oxds_server::Resource::new(own.clone(), "q", &[0x08, 0x07]);
    let (version, written) = (
        newer.version().to_string(),
        (quota.value(), quota.version()),
    );
    let published = [newer, quota];
    let writer = Writer::of_lane("main");
    writer.publish_resources(&etcd, published).await.unwrap();
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let snapshot = replica.server.cache.snapshot();
    let served = snapshot.get(&own, "q").unwrap();
    assert_eq!((served.value(), served.version()), written);
    assert_eq!(replica.clusters()["a"], version);
    let is_warned = |store: &serde_json::Value| store["findings"][0].is_object();
    let store = replica.shows("a warning", is_warned).await;
    let finding = &store["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["rule"], &finding["file"]),
        (
            &"warning".into(),
            &"unknown-field".into(),
            &"etcd:l/main/r/envoy.config.cluster.v3.Cluster/a".into()
        )
    );
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("field 5000 of envoy.config.cluster.v3.Cluster"),
        "{message}"
    );
    assert_eq!(store["findings"].as_array().unwrap().len(), 1);

    publish(&etcd, &[("a", "1")]).await;
    replica.shows("no warning", |store| !is_warned(store)).await;
}
