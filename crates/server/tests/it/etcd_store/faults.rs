//! Faults of watches and reads: one test per fault (G-21, G-22).

use std::collections::BTreeMap;

use oxds_testkit::etcd::WatchFault;

use super::{Client, Replica, etcd, publish};

/// given a fault of the watch / when publishes follow each other / then the client sees states that were published, in
/// their order, and at the end the last one.
async fn outlives(fault: WatchFault) {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1"), ("c", "1")]).await;
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a", "b", "c"], &[]).await;
    let mut history = vec![replica.clusters()];
    etcd.break_watch(fault);
    for clusters in [
        &[("a", "2"), ("c", "2")][..],
        &[("a", "3"), ("b", "3")],
        &[("a", "4"), ("b", "3"), ("d", "4")],
    ] {
        publish(&etcd, clusters).await;
        history.push(versions(clusters));
    }
    etcd.release();
    replica.serves(4).await;
    let last = history.last().unwrap().clone();
    let mut position = 0;
    while client.has != last {
        client.next().await;
        let found = history
            .iter()
            .skip(position)
            .position(|state| *state == client.has);
        let found =
            found.unwrap_or_else(|| panic!("{fault:?}: {:?} was not published", client.has));
        position += found;
    }
    assert_eq!(replica.clusters(), last, "{fault:?}");
}

/// Returns the versions of the clusters, as a replica computes them.
fn versions(clusters: super::publishing::Clusters<'_>) -> BTreeMap<String, String> {
    let versions = clusters.iter().map(|(name, content)| {
        let resource = super::publishing::resource(name, content);
        ((*name).to_owned(), resource.version().to_string())
    });
    versions.collect()
}

macro_rules! faults {
    ($($name:ident: $fault:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            outlives(WatchFault::$fault).await;
        })+
    };
}

faults! {
    g21_doubled_events_are_outlived: Duplicate,
    g21_lost_events_are_outlived: Drop,
    g21_swapped_events_are_outlived: Swap,
    g21_split_events_are_outlived: Split,
    g21_unmarked_fragments_are_outlived: SplitUnmarked,
    g21_delayed_events_are_outlived: Delay,
    g21_false_progress_is_outlived: FalseProgress,
    g21_time_travel_is_outlived: BackInTime,
    g21_omitted_deletes_are_outlived: OmitDeletes,
}

/// given a member whose answers are older than the served state / when the replica connects to it / then it never goes
/// back.
#[tokio::test]
async fn g22_stale_answers_are_not_served() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let old = etcd.revision();
    let replica = Replica::start(&[&etcd]).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    publish(&etcd, &[("b", "1")]).await;
    client.gets(&["b"], &["a"]).await;

    etcd.set_stale(Some(old));
    etcd.restart().await.unwrap();
    replica
        .shows("a failure", |store| store["failures"].as_u64() >= Some(2))
        .await;
    assert_eq!(replica.names(), ["b"]);
    etcd.set_stale(None);
    publish(&etcd, &[("b", "2")]).await;
    client.gets(&["b"], &[]).await;
}
