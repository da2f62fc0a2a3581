//! Tests of load balancing within and between clusters: round robin, weights, drops.

use oxds_channel::testing::{cluster, config};
use tonic::Code;

use crate::support::{backends, call_once, channel, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

#[tokio::test]
async fn c247_round_robin_spreads_calls_evenly() {
    // given three endpoints in one locality, all connected
    let [a, b, c] = backends().await;
    let (script, channel) = channel();
    let addresses = [a.address(), b.address(), c.address()];
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &addresses)]], 0)],
    ));
    ready(&channel, 3).await;
    spread(&channel, 1).await;
    // when thirty calls are made one after the other
    let counts = spread(&channel, 30).await;
    // then each endpoint gets ten
    assert!(
        addresses.iter().all(|address| counts[address] == 10),
        "{counts:?}"
    );
}

#[tokio::test]
async fn c244_localities_share_traffic_by_weight() {
    // given a locality of weight 3 with one endpoint and one of weight 1 with two
    let [near, far1, far2] = backends().await;
    let (script, channel) = channel();
    let near_locality: (_, _, &[_]) = ("near", 3, &[near.address()]);
    let far = [far1.address(), far2.address()];
    script.set(config(
        ALL,
        vec![cluster("one", &[&[near_locality, ("far", 1, &far)]], 0)],
    ));
    ready(&channel, 3).await;
    spread(&channel, 5).await;
    // when 2000 calls are made
    let counts = spread(&channel, 2000).await;
    // then three of four go to the near one: σ = √(2000·¾·¼) ≈ 19.4, six σ are allowed
    let near = counts[&near.address()];
    assert!(near.abs_diff(1500) < 117, "{counts:?}");
    // and the far endpoints share the rest evenly
    assert!(counts[&far[0]].abs_diff(counts[&far[1]]) <= 1, "{counts:?}");
}

#[tokio::test]
async fn c244_locality_without_ready_endpoint_gets_no_traffic() {
    let [up, down] = backends().await;
    down.kill();
    let (script, channel) = channel();
    let localities: &[_] = &[
        ("up", 1, &[up.address()][..]),
        ("down", 1_000_000, &[down.address()][..]),
    ];
    script.set(config(ALL, vec![cluster("one", &[localities], 0)]));
    let counts = spread(&channel, 20).await;
    assert_eq!(counts[&up.address()], 20);
}

#[tokio::test]
async fn c245_full_drop_works_without_endpoints() {
    // given a cluster without endpoints that drops all calls
    let (script, channel) = channel();
    script.set(config(ALL, vec![cluster("one", &[], 1_000_000)]));
    // then calls fail at once with the drop category
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("dropped as overload"), "{status}");
    // when it drops no calls and has an endpoint
    let [a] = backends().await;
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[a.address()])]], 0)],
    ));
    // then all calls reach the endpoint
    tokio::task::yield_now().await;
    while call_once(&channel).await.is_err() {}
    assert_eq!(spread(&channel, 100).await[&a.address()], 100);
}

#[tokio::test]
async fn c245_quarter_drop_fails_a_quarter_of_calls() {
    let [a] = backends().await;
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[a.address()])]], 250_000)],
    ));
    let mut dropped = 0;
    for _ in 0..2000 {
        dropped += usize::from(call_once(&channel).await.is_err());
    }
    // σ = √(2000·¼·¾) ≈ 19.4, six σ are allowed
    assert!(dropped.abs_diff(500) < 117, "{dropped}");
}

#[tokio::test]
async fn c239_weighted_clusters_share_traffic_by_weight() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let clusters = vec![
        cluster("a", &[&[("here", 1, &[a.address()])]], 0),
        cluster("b", &[&[("here", 1, &[b.address()])]], 0),
    ];
    script.set(config(&[("", &[(90, 0), (10, 1)])], clusters));
    let counts = spread(&channel, 2000).await;
    // σ = √(2000·0.9·0.1) ≈ 13.4, six σ are allowed
    assert!(counts[&b.address()].abs_diff(200) < 81, "{counts:?}");
}

#[tokio::test]
async fn c239_failed_cluster_does_not_affect_its_siblings() {
    let [a, dead] = backends().await;
    dead.kill();
    let (script, channel) = channel();
    let clusters = vec![
        cluster("a", &[&[("here", 1, &[a.address()])]], 0),
        cluster("dead", &[&[("here", 1, &[dead.address()])]], 0),
    ];
    script.set(config(&[("", &[(1, 0), (1, 1)])], clusters));
    let (mut succeeded, mut failed) = (0, 0);
    for _ in 0..200 {
        match call_once(&channel).await {
            Ok(address) => {
                assert_eq!(address, a.address());
                succeeded += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable);
                assert!(status.message().starts_with("cluster dead:"), "{status}");
                failed += 1;
            }
        }
    }
    assert!(succeeded > 50 && failed > 50, "{succeeded} {failed}");
}
