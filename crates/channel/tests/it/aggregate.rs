//! Tests of aggregate clusters (gRFC A37, A75).

use std::net::SocketAddr;
use std::time::Duration;

use oxds_channel::testing::{
    Call, ClusterSpec, EchoBackend, Resources, Script, aggregate, broken, call, cluster, config,
};
use oxds_channel::{Connectivity, XdsChannel};
use oxds_core::lb::policy::PolicyConfig;
use tonic::Code;

use crate::support::{SOON, backends, call_once, channel, detection, eventually, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const LONG: Duration = Duration::from_secs(3600);

/// A cluster with these endpoints in each priority.
fn of(name: &str, priorities: &[&[SocketAddr]]) -> ClusterSpec {
    let levels = priorities.iter().map(|level| [("here", 1, *level)]);
    let levels: Vec<_> = levels.collect();
    let levels: Vec<_> = levels.iter().map(<[_; 1]>::as_slice).collect();
    cluster(name, &levels, 0)
}

/// Routes everything to `both`, the aggregate of these clusters in this order.
fn both(clusters: Vec<ClusterSpec>, names: &[&str]) -> Resources {
    let mut all = vec![aggregate("both", names)];
    all.extend(clusters);
    config(ALL, all)
}

fn near_and_far(near: ClusterSpec, far: ClusterSpec) -> Resources {
    both(vec![near, far], &["near", "far"])
}

/// Returns the active priority, and the cluster to which it belongs.
fn active(channel: &XdsChannel) -> Option<(usize, String)> {
    let status = channel.status();
    let cluster = status.clusters.first()?;
    Some((cluster.priority?, cluster.leaf.as_deref()?.to_owned()))
}

async fn becomes_active(channel: &XdsChannel, priority: usize, leaf: &str) {
    eventually(|| active(channel) == Some((priority, leaf.to_owned()))).await;
}

/// Returns the cluster, as picks report it, that serves a call.
async fn serving_cluster(channel: &XdsChannel) -> String {
    let request = Call {
        timeout: Some(SOON),
        ..Call::default()
    };
    let (_, picked) = call(channel, request).await.unwrap();
    picked.unwrap().cluster.to_string()
}

#[tokio::test]
async fn c221_traffic_fails_over_to_next_cluster_and_returns() {
    let [near, far] = backends().await;
    let (script, channel) = channel();
    script.set(near_and_far(
        of("near", &[&[near.address()]]),
        of("far", &[&[far.address()]]),
    ));
    // given that the first cluster serves all calls
    assert_eq!(spread(&channel, 10).await[&near.address()], 10);
    assert_eq!(serving_cluster(&channel).await, "near");
    assert_eq!(active(&channel), Some((0, "near".to_owned())));
    // then the second is not connected
    assert_eq!(far.accepted(), 0);
    // when the first fails, then the second serves them
    near.kill();
    becomes_active(&channel, 1, "far").await;
    assert_eq!(spread(&channel, 10).await[&far.address()], 10);
    assert_eq!(serving_cluster(&channel).await, "far");
    // when the first returns, then it serves them again, and the second is released
    near.restart().await.unwrap();
    becomes_active(&channel, 0, "near").await;
    assert_eq!(spread(&channel, 10).await[&near.address()], 10);
    eventually(|| far.connections() == 0).await;
}

#[tokio::test]
async fn c221_priorities_of_a_cluster_come_before_the_next_one() {
    let [first, second, far] = backends().await;
    let (script, channel) = channel();
    script.set(near_and_far(
        of("near", &[&[first.address()], &[second.address()]]),
        of("far", &[&[far.address()]]),
    ));
    assert_eq!(call_once(&channel).await.unwrap(), first.address());
    first.kill();
    becomes_active(&channel, 1, "near").await;
    assert_eq!(call_once(&channel).await.unwrap(), second.address());
    assert_eq!(far.accepted(), 0);
    second.kill();
    becomes_active(&channel, 2, "far").await;
    assert_eq!(call_once(&channel).await.unwrap(), far.address());
    // The status has the endpoints of both clusters, in the order of failover.
    let endpoints = channel.status().clusters.remove(0).endpoints;
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|one| (&*one.endpoint.cluster, one.endpoint.priority))
        .collect();
    assert_eq!(endpoints, [("near", 0), ("near", 1), ("far", 2)]);
    // and traffic returns to the first priority, past the second
    first.restart().await.unwrap();
    becomes_active(&channel, 0, "near").await;
    assert_eq!(call_once(&channel).await.unwrap(), first.address());
}

#[tokio::test]
async fn c221_each_cluster_has_its_own_policy() {
    let [near, far] = backends().await;
    let (script, channel) = channel();
    let ring_hash = PolicyConfig::RingHash {
        min_ring_size: 8,
        max_ring_size: 8,
    };
    let pick_first = PolicyConfig::PickFirst { shuffle: false };
    script.set(near_and_far(
        of("near", &[&[near.address()]]).with_policy(ring_hash),
        of("far", &[&[far.address()]]).with_policy(pick_first),
    ));
    let policy = |channel: &XdsChannel| {
        let status = channel.status().clusters.remove(0);
        (status.policy.unwrap_or_default(), status.ring_size)
    };
    call_once(&channel).await.unwrap();
    assert_eq!(policy(&channel), ("ring_hash".to_owned(), Some(8)));
    near.kill();
    // A ring hash does not reconnect until the next call.
    eventually(|| channel.status().clusters[0].connectivity == Connectivity::Idle).await;
    assert_eq!(call_once(&channel).await.unwrap(), far.address());
    assert_eq!(policy(&channel), ("pick_first".to_owned(), None));
}

#[tokio::test]
async fn c221_each_cluster_has_its_own_drops_and_limit() {
    let [near, far] = backends().await;
    let (script, channel) = channel();
    let near_address = [near.address()];
    let dropping = cluster("near", &[&[("here", 1, &near_address)]], 1_000_000);
    let limited = of("c221_far", &[&[far.address()]]).max_requests(1);
    script.set(both(vec![dropping, limited], &["near", "c221_far"]));
    let status = call_once(&channel).await.unwrap_err();
    assert!(status.message().contains("dropped as overload"), "{status}");
    near.kill();
    becomes_active(&channel, 1, "c221_far").await;
    // The second cluster drops nothing, up to its limit.
    call_once(&channel).await.unwrap();
    far.set_delay(LONG);
    let held = channel.clone();
    let held = tokio::spawn(async move { call_once(&held).await });
    eventually(|| far.calls() == 2).await;
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("1 requests"), "{status}");
    held.abort();
}

#[tokio::test]
async fn c221_limit_counts_calls_by_aggregate_and_by_cluster() {
    // given routes to a cluster, directly and through an aggregate
    let [backend] = backends().await;
    let (script, channel) = channel();
    let routes: &[(&str, &[(u32, usize)])] = &[("/a", &[(1, 0)]), ("/b", &[(1, 1)])];
    script.set(config(
        routes,
        vec![
            aggregate("both", &["c221_one"]),
            of("c221_one", &[&[backend.address()]]).max_requests(1),
        ],
    ));
    ready(&channel, 2).await;
    backend.set_delay(LONG);
    let held = channel.clone();
    let held = tokio::spawn(async move { crate::support::call_path(&held, "/a.A/B").await });
    eventually(|| backend.calls() == 1).await;
    // then both share the limit, and the connection
    let dropped = crate::support::call_path(&channel, "/b.A/B").await;
    let status = dropped.unwrap_err();
    assert!(status.message().contains("dropped"), "{status}");
    assert_eq!(backend.accepted(), 1);
    held.abort();
}

#[tokio::test]
async fn c252_cluster_of_ejected_endpoints_fails_over() {
    // given outlier detection in the first cluster alone, and the same endpoint in both
    let [bad, good] = backends().await;
    let (script, channel) = channel();
    script.set(near_and_far(
        of("near", &[&[bad.address()]]).outlier(detection(LONG)),
        of("far", &[&[good.address(), bad.address()]]),
    ));
    ready(&channel, 1).await;
    bad.set_status(13);
    let failing = async {
        while active(&channel) != Some((1, "far".to_owned())) {
            let _ = call_once(&channel).await;
        }
    };
    tokio::time::timeout(SOON, failing).await.unwrap();
    bad.set_status(0);
    ready(&channel, 3).await;
    // then the endpoint is ejected from the first cluster, and used in the second
    let endpoints = channel.status().clusters.remove(0).endpoints;
    let ejected: Vec<_> = endpoints.iter().map(|one| one.ejected.is_some()).collect();
    assert_eq!(ejected, [true, false, false]);
    let counts = spread(&channel, 20).await;
    assert_eq!((counts[&good.address()], counts[&bad.address()]), (10, 10));
}

#[tokio::test]
async fn c221_address_of_two_clusters_keeps_its_connection() {
    let [shared, near, far] = backends().await;
    let (script, channel) = channel();
    let set = |near: &[SocketAddr], far: &[SocketAddr]| {
        script.set(near_and_far(of("near", &[near]), of("far", &[far])));
    };
    // given an address in both clusters
    set(
        &[near.address(), shared.address()],
        &[far.address(), shared.address()],
    );
    let endpoint_count = |count: usize| {
        let channel = channel.clone();
        move || {
            let clusters = channel.status().clusters;
            clusters
                .first()
                .is_some_and(|one| one.endpoints.len() == count)
        }
    };
    ready(&channel, 2).await;
    let counts = spread(&channel, 20).await;
    assert_eq!(
        (counts[&near.address()], counts[&shared.address()]),
        (10, 10)
    );
    // when it leaves the second, the first still uses it
    set(&[near.address(), shared.address()], &[far.address()]);
    eventually(endpoint_count(3)).await;
    assert_eq!(spread(&channel, 20).await[&shared.address()], 10);
    // when it moves to the second, and the first fails
    near.kill();
    set(&[near.address()], &[shared.address()]);
    becomes_active(&channel, 1, "far").await;
    assert_eq!(spread(&channel, 20).await[&shared.address()], 20);
    // when it leaves both
    near.restart().await.unwrap();
    set(&[near.address()], &[far.address()]);
    becomes_active(&channel, 0, "near").await;
    eventually(|| shared.connections() == 0).await;
}

#[tokio::test]
async fn c221_failure_of_a_shared_address_fails_both_clusters() {
    let [shared] = backends().await;
    let (script, channel) = channel();
    script.set(near_and_far(
        of("near", &[&[shared.address()]]),
        of("far", &[&[shared.address()]]),
    ));
    call_once(&channel).await.unwrap();
    shared.kill();
    let failed = || channel.status().clusters[0].connectivity == Connectivity::TransientFailure;
    eventually(failed).await;
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("cluster both: "), "{status}");
    // One connection attempt serves both.
    shared.restart().await.unwrap();
    becomes_active(&channel, 0, "near").await;
    call_once(&channel).await.unwrap();
    assert_eq!(shared.connections(), 1);
}

#[tokio::test]
async fn c221_missing_cluster_is_skipped_until_it_exists() {
    let [near, far] = backends().await;
    let (script, channel) = channel();
    let far_spec = || of("far", &[&[far.address()]]);
    script.set(near_and_far(
        broken("near", "near does not exist"),
        far_spec(),
    ));
    assert_eq!(call_once(&channel).await.unwrap(), far.address());
    script.set(near_and_far(of("near", &[&[near.address()]]), far_spec()));
    becomes_active(&channel, 0, "near").await;
    assert_eq!(call_once(&channel).await.unwrap(), near.address());
    // The second cluster keeps its connection while the first connects.
    assert_eq!(far.accepted(), 1);
    // when none is left
    script.set(near_and_far(
        broken("near", "gone"),
        broken("far", "gone, too"),
    ));
    eventually(|| channel.status().clusters[0].error.is_some()).await;
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "cluster both: aggregate cluster \"both\" has no usable cluster, last error of \"far\": gone, too"
    );
}

#[tokio::test]
async fn c221_reordered_clusters_keep_their_connections() {
    let [near, far] = backends().await;
    let (script, channel) = channel();
    let set = |names: &[&str]| {
        let specs = vec![
            of("near", &[&[near.address()]]),
            of("far", &[&[far.address()]]),
        ];
        script.set(both(specs, names));
    };
    set(&["near", "far"]);
    assert_eq!(call_once(&channel).await.unwrap(), near.address());
    set(&["far", "near"]);
    becomes_active(&channel, 0, "far").await;
    assert_eq!(call_once(&channel).await.unwrap(), far.address());
    // Traffic moves back: one that is ready is used at once, and connections are made once per switch.
    set(&["near", "far"]);
    becomes_active(&channel, 0, "near").await;
    assert_eq!(call_once(&channel).await.unwrap(), near.address());
    eventually(|| far.connections() == 0).await;
    assert_eq!(far.accepted(), 1);
}

/// Makes calls in turn, and counts those that fail, until dropped.
fn traffic(channel: &XdsChannel) -> tokio::task::JoinHandle<()> {
    let channel = channel.clone();
    tokio::spawn(async move {
        loop {
            call_once(&channel).await.expect("no call fails");
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c221_drained_cluster_loses_no_call() {
    let [near, far] = backends().await;
    let (script, channel): (Script, _) = channel();
    script.set(near_and_far(
        of("near", &[&[near.address()]]),
        of("far", &[&[far.address()]]),
    ));
    ready(&channel, 1).await;
    let calls: Vec<_> = (0..4).map(|_| traffic(&channel)).collect();
    for _ in 0..3 {
        served(&near).await;
        near.drain();
        served(&far).await;
        near.restart().await.unwrap();
    }
    served(&near).await;
    // then no task has failed
    for call in calls {
        assert!(!call.is_finished());
        call.abort();
    }
}

/// Waits until a backend has got more calls.
async fn served(backend: &EchoBackend) {
    let before = backend.calls();
    eventually(|| backend.calls() > before + 20).await;
}

#[tokio::test]
async fn c255_failing_eds_cluster_causes_no_lookup() {
    // given an EDS cluster, and a DNS cluster after it
    let [near, far] = backends().await;
    let (script, channel) = channel();
    let port = far.address().port();
    let dns = cluster("dns", &[], 0).logical_dns("127.0.0.1", port);
    let eds = of("near", &[&[near.address()]]);
    script.set(both(vec![eds, dns], &["near", "dns"]));
    call_once(&channel).await.unwrap();
    // when the EDS cluster fails again and again
    for _ in 0..3 {
        near.kill();
        becomes_active(&channel, 1, "dns").await;
        assert_eq!(call_once(&channel).await.unwrap(), far.address());
        near.restart().await.unwrap();
        becomes_active(&channel, 0, "near").await;
    }
    // then the host is not looked up for it
    assert_eq!(script.lookups(), 1);
}
