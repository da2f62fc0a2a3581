//! Settings of the server, and reports according to them.

use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;

use super::{Played, counts, everything, names, orders, rpc, window};

/// Given settings for one of two clusters, every 10 s; then this one is reported every 10 s, without the node, and the
/// other one is not.
#[test]
fn c133_requested_clusters_are_reported_at_the_interval() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(orders(&["a"], 10));
    for _ in 0..3 {
        rpc(&a);
        rpc(&b);
        assert_eq!(played.wait(), Duration::from_secs(10));
        let requests = played.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].node, None);
        assert_eq!(names(&requests[0].cluster_stats), ["a"]);
    }
    // The other cluster was not wanted: once it is, its interval is short, and earlier counts are dropped.
    played.respond(orders(&["a", "b"], 10));
    rpc(&b);
    let stats = played.report();
    let b = stats
        .iter()
        .find(|stats| stats.cluster_name == "b")
        .unwrap();
    assert_eq!(counts(&b.upstream_locality_stats[0])[0], 1);
    assert_eq!(window(b), Duration::from_secs(10));
}

#[test]
fn c134_send_all_clusters_ignores_the_list() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(LoadStatsResponse {
        clusters: vec!["b".to_owned()],
        ..everything(1)
    });
    rpc(&a);
    rpc(&b);
    assert_eq!(names(&played.report()), ["a", "b"]);
}

/// Given reports every 10 s. When, 4 s after one, the server asks for 2 s and another cluster, then a report of that
/// cluster is due at once, and the next after 2 s. Repeated settings do not delay reports.
#[test]
fn c135_new_settings_take_effect_at_once() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(orders(&["a"], 10));
    played.report();
    rpc(&a);
    rpc(&b);
    played.now += Duration::from_secs(4);
    played.respond(orders(&["b"], 2));
    assert_eq!(played.wait(), Duration::ZERO);
    let requests = played.requests();
    assert_eq!(names(&requests[0].cluster_stats), ["b"]);
    assert_eq!(
        window(&requests[0].cluster_stats[0]),
        Duration::from_secs(4)
    );

    rpc(&b);
    played.now += Duration::from_secs(1);
    played.respond(orders(&["b"], 2));
    assert_eq!(played.wait(), Duration::from_secs(1));
    assert_eq!(names(&played.requests()[0].cluster_stats), ["b"]);
}
