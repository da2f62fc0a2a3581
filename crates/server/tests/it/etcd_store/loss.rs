//! Etcds that lost publishes: restored, rewound, replaced (G-27 … G-29).

use http::StatusCode;
use oxds_etcd::publisher::PublishError;
use oxds_testkit::etcd::{Backup, ScriptedEtcd};
use serde_json::Value;
use tempfile::TempDir;

use super::publishing::Writer;
use super::{Client, Replica, etcd, options, publish, served};

/// A replica at the third publish, of an etcd with a backup of the first one.
async fn third() -> (ScriptedEtcd, Backup, Replica, Client) {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let backup = etcd.backup();
    publish(&etcd, &[("a", "2")]).await;
    publish(&etcd, &[("a", "3"), ("b", "3")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b"], &[]).await;
    (etcd, backup, replica, client)
}

async fn is_held(replica: &Replica, message: &str) {
    let store = replica
        .shows("a finding", |store| {
            store["findings"][0]["rule"] == "went-back"
        })
        .await;
    assert_eq!(store["findings"][0]["message"], message);
    assert_eq!(store["lanes"][0]["held"], true);
    assert_eq!(replica.names(), ["a", "b"]);
    assert_eq!(replica.ready().await.0, StatusCode::OK);
}

/// given an etcd that was restored from a backup / then the replica holds what it serves, stays ready and reports it. A
/// publish on top of the restored state releases it, and the client gets the difference.
#[tokio::test]
async fn g27_restored_store_is_held() {
    let (etcd, backup, replica, mut client) = third().await;
    etcd.restore(&backup).await.unwrap();
    is_held(&replica, "store went back: serving 3, store has 1").await;

    // A replica that starts now must not serve the first publish.
    replica.reports(&etcd, "publish 3", served(3)).await;
    let new = Replica::start(&[&etcd]).await;
    let id = &replica.id;
    let message = format!("store went back: replica {id} serves 3, store has 1");
    let is_held = |store: &Value| store["findings"][0]["message"] == message;
    new.shows("a finding", is_held).await;
    assert_eq!(new.ready().await.0, StatusCode::SERVICE_UNAVAILABLE);

    let error = Writer::of_lane("main").publish(&etcd, &[("a", "4")]).await;
    assert!(matches!(
        error,
        Err(PublishError::WentBack {
            serving: 3,
            store: 1
        })
    ));
    let mut writer = Writer::of_lane("main");
    writer.options.accept_restored = true;
    let seq = writer.publish(&etcd, &[("a", "4"), ("b", "3")]).await;
    assert_eq!(seq, Ok(4));
    client.gets(&["a"], &[]).await;
    for replica in [&replica, &new] {
        replica.serves(4).await;
        assert!(replica.store().await["findings"][0].is_null());
        assert_eq!(replica.clusters(), client.has);
    }
}

/// given a replica with a state on disk / when it restarts after the store was restored / then it holds that state;
/// with `accept_restored` it follows the store.
#[tokio::test]
async fn g27_restart_holds_the_state_on_disk() {
    let folder = TempDir::new().unwrap();
    let (etcd, backup, replica, _) = third().await;
    replica.stop().await;
    let replica = Replica::with_state(&[&etcd], folder.path()).await;
    replica.serves(3).await;
    replica.stop().await;

    etcd.restore(&backup).await.unwrap();
    let replica = Replica::with_state(&[&etcd], folder.path()).await;
    is_held(&replica, "store went back: serving 3, store has 1").await;
    assert!(replica.store().await["stale"].is_object());
    replica.stop().await;

    let mut options = options(&[&etcd]);
    options.accept_restored = true;
    let replica = Replica::of(options, Some(folder.path())).await;
    replica.serves(1).await;
    assert_eq!(replica.names(), ["a"]);
}

/// given an etcd that was restored and then written past the served seq / then the chain of heads reveals it; the
/// replica reads everything again and follows, and the client gets the difference.
#[tokio::test]
async fn g28_other_history_is_followed() {
    let (etcd, backup, replica, mut client) = third().await;
    let writers = etcd.join().await.unwrap();
    // The replica must not report its seq before these publishes: then they would be refused.
    etcd.set_silent(true);
    etcd.restore(&backup).await.unwrap();
    publish(&writers, &[("c", "2")]).await;
    publish(&writers, &[("a", "3"), ("c", "3")]).await;
    publish(&writers, &[("a", "3"), ("c", "4")]).await;
    etcd.set_silent(false);
    client.gets(&["c"], &["b"]).await;
    replica.serves(4).await;
}

/// given another cluster at the same address, without a publish / then the replica holds what it serves.
#[tokio::test]
async fn g29_other_cluster_is_held() {
    let (etcd, _, replica, mut client) = third().await;
    etcd.replace_cluster().await.unwrap();
    is_held(&replica, "store went back: serving 3, store has no head").await;
    replica.reports(&etcd, "publish 3", served(3)).await;
    let mut writer = Writer::of_lane("main");
    writer.options.accept_restored = true;
    let seq = writer.publish(&etcd, &[("a", "4"), ("b", "3")]).await;
    assert_eq!(seq, Ok(4));
    client.gets(&["a"], &[]).await;
    replica.serves(4).await;
}
