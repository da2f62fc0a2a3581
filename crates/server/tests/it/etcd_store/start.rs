//! The start of a replica: what it waits for, what it serves, and when it cannot be used (G-4, G-6, G-16, G-25, G-33).

use std::time::Duration;

use http::StatusCode;
use tempfile::TempDir;
use tokio::time::timeout;

use super::publishing::Writer;
use super::{Client, Replica, etcd, options, publish};
use crate::client::{CDS, SOTW, Stream, ask};
use crate::{SOON, until};

/// given an etcd without a publish / when a replica starts / then it is not ready, and a client waits until the first
/// publish.
#[tokio::test]
async fn g16_replica_waits_for_the_first_publish() {
    let (etcd, _) = etcd().await;
    let replica = Replica::start(&[&etcd]).await;
    replica
        .shows("a connection", |store| store["connected"] == true)
        .await;
    assert_eq!(replica.ready().await.0, StatusCode::SERVICE_UNAVAILABLE);
    let mut client = Client::connect(&replica).await;

    publish(&etcd, &[("a", "1"), ("b", "1")]).await;

    client.gets(&["a", "b"], &[]).await;
    assert_eq!(replica.ready().await, (StatusCode::OK, "ok\n".to_owned()));
}

/// given a publish / when a replica starts / then its status and metrics have seq, digest and member.
#[tokio::test]
async fn g16_status_and_metrics_have_the_publish() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    replica.serves(1).await;
    let store = replica.store().await;
    assert_eq!(store["member"], etcd.url());
    assert_eq!((&store["cause"], &store["reads"]), (&().into(), &1.into()));
    let lane = &store["lanes"][0];
    assert_eq!((&lane["lane"], &lane["lag"]), (&"main".into(), &0.into()));
    assert_eq!(lane["digest"].as_str().unwrap().len(), 32);
    replica.server.counts("oxds_store_connected 1").await;
    replica
        .server
        .counts("oxds_store_seq{lane=\"main\"} 1.0")
        .await;
    replica
        .server
        .counts("oxds_store_lag{lane=\"main\"} 0.0")
        .await;
    let member = format!("oxds_store_member{{member=\"{}\"}} 1", etcd.url());
    replica.server.counts(&member).await;
}

/// given two lanes / when both publish / then the union is served, and the status has both.
#[tokio::test]
async fn g6_union_of_lanes_is_served() {
    let (etcd, _) = etcd().await;
    let edge = Writer::of_lane("edge");
    edge.publish(&etcd, &[("a", "1")]).await.unwrap();
    publish(&etcd, &[("b", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let store = replica
        .shows("both lanes", |store| store["lanes"][1]["seq"] == 1)
        .await;
    assert_eq!(store["lanes"][0]["lane"], "edge");
    assert_eq!(replica.names(), ["a", "b"]);
}

/// given clients, delta and SotW, of a replica / when another replica starts and they move to it / then they get
/// nothing that they have.
#[tokio::test]
async fn g35_clients_of_a_new_replica_get_nothing_again() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let first = Replica::start(&[&etcd]).await;
    let mut delta = Client::connect(&first).await;
    delta.gets(&["a", "b"], &[]).await;
    let mut sotw = Stream::open(first.server.grpc, SOTW).await;
    sotw.send(&ask(CDS, &[]));
    let had = sotw.sotw().await.version_info;
    first.stop().await;

    // They come before it has read etcd.
    etcd.set_silent(true);
    let second = Replica::start(&[&etcd]).await;
    let mut sotw = Stream::open(second.server.grpc, SOTW).await;
    let mut request = ask(CDS, &[]);
    request.version_info.clone_from(&had);
    sotw.send(&request);
    let mut delta = Client::with(&second, delta.has).await;
    etcd.set_silent(false);
    // The answer to the subscription of a delta client has what it lacks.
    delta.gets(&[], &[]).await;
    second.serves(1).await;
    publish(&etcd, &[("a", "2"), ("b", "1")]).await;
    delta.gets(&["a"], &[]).await;
    assert_ne!(sotw.sotw().await.version_info, had);
}

/// given a state on disk and no etcd / when a replica starts / then it serves that state, marked as stale, and is
/// ready; clients get nothing that they have. When etcd is back, they get the difference, removals included.
#[tokio::test]
async fn g25_state_is_served_without_etcd() {
    let folder = TempDir::new().unwrap();
    let (etcd, writers) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1"), ("c", "1")]).await;
    let replica = Replica::with_state(&[&etcd], folder.path()).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b", "c"], &[]).await;
    replica.stop().await;

    etcd.kill();
    publish(&writers, &[("a", "1"), ("b", "2")]).await;
    let replica = Replica::with_state(&[&etcd], folder.path()).await;
    let mut client = Client::with(&replica, client.has).await;
    client.gets(&[], &[]).await;
    replica
        .shows("a stale state", |store| store["stale"].is_object())
        .await;
    let (status, text) = replica.ready().await;
    assert!(status == StatusCode::OK && text.contains("stale"), "{text}");
    assert_eq!(replica.names(), ["a", "b", "c"]);

    etcd.restart().await.unwrap();
    client.gets(&["b"], &["c"]).await;
    replica.serves(2).await;
    assert!(replica.store().await["stale"].is_null());
    replica.stop().await;

    // The state on disk went on.
    etcd.kill();
    let replica = Replica::with_state(&[&etcd], folder.path()).await;
    until("the later state", async || {
        (replica.names() == ["a", "b"]).then_some(())
    })
    .await;
}

/// given neither etcd nor a state / when a replica starts / then it is not ready, and the status has the cause.
#[tokio::test]
async fn g25_without_a_state_replica_is_not_ready() {
    let (etcd, _) = etcd().await;
    etcd.kill();
    let replica = Replica::start(&[&etcd]).await;
    let store = replica
        .shows("a cause", |store| store["cause"].is_string())
        .await;
    let cause = store["cause"].as_str().unwrap();
    assert!(
        cause.contains(&etcd.url()) && cause.contains("cannot connect"),
        "{cause}"
    );
    assert_eq!(store["connected"], false);
    assert_eq!(replica.ready().await.0, StatusCode::SERVICE_UNAVAILABLE);
}

/// given kine, or an etcd that is too old, at all addresses / when a replica starts / then the reason names it; with a
/// state on disk that is served instead.
#[tokio::test]
async fn g33_other_programs_end_the_start() {
    let (kine, old) = (etcd().await.0, etcd().await.0);
    kine.set_without_ids(true);
    old.set_version("3.3.27");
    for (members, text) in [
        (vec![&kine], "not an etcd"),
        (vec![&old], "etcd 3.3.27 is too old"),
        (vec![&kine, &old], "etcd"),
    ] {
        let replica = Replica::start(&members).await;
        let reason = timeout(SOON, replica.unusable.reason()).await.unwrap();
        assert!(reason.contains(text), "{reason}");
    }
    let (other, _) = etcd().await;
    publish(&other, &[("a", "1")]).await;
    let replica = Replica::start(&[&kine, &other]).await;
    replica.serves(1).await;
}

/// given a store with a newer format / when a replica starts / then the reason states both numbers; if the format
/// changes while it runs, it serves on, does not follow, and reports that once.
#[tokio::test]
async fn g4_newer_format_is_not_followed() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let running = Replica::start(&[&etcd]).await;
    running.serves(1).await;
    etcd.put("/oxds/default/format", "2");
    let starting = Replica::start(&[&etcd]).await;
    let reason = timeout(SOON, starting.unusable.reason()).await.unwrap();
    assert!(
        reason.contains("the format is 2") && reason.contains("format 1"),
        "{reason}"
    );

    let store = running
        .shows("a finding", |store| {
            store["findings"][0]["rule"] == "format"
        })
        .await;
    assert_eq!(store["findings"].as_array().unwrap().len(), 1);
    assert_eq!(store["connected"], false);
    assert_eq!(running.names(), ["a"]);
    assert_eq!(running.ready().await.0, StatusCode::OK);
}

/// given a member that does not answer / when a replica starts with another one in its list / then it uses that one.
#[tokio::test]
async fn g20_silent_member_at_start_is_passed_over() {
    let (etcd, other) = etcd().await;
    publish(&other, &[("a", "1")]).await;
    etcd.set_silent(true);
    let mut options = options(&[&etcd, &other]);
    options.timing.connect = Duration::from_secs(1);
    let replica = Replica::of(options, None).await;
    replica.serves(1).await;
    assert_eq!(replica.store().await["member"], other.url());
}
