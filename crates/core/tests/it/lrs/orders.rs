//! What the server asks for, and when it gets it.

use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;

use super::{Played, counts, everything, names, orders, rpc, window};

/// given orders for one of two clusters, every 10 s / then it is reported, and the other is not, every 10 s; without its
/// node.
#[test]
fn c133_what_was_asked_for_is_reported_at_the_interval() {
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
    // The other one was not wanted: when it is, its window is short, and what came before is void.
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
fn c134_all_are_reported_where_all_are_wanted_whatever_the_list() {
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

/// given reports every 10 s / when, 4 s after one, the server asks for 2 s and another cluster / then a report is due at
/// once, of that cluster, and the next after 2 s; when the same is said again and again / then reports do not wait.
#[test]
fn c135_new_orders_take_effect_at_once() {
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
