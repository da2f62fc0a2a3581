//! C-198, C-221: aggregate clusters.

use std::sync::Arc;

use oxds_core::ads::WatchErrorReason;
use oxds_core::resolve::{ClusterConfig, XdsConfig};
use oxds_types::ResourceType;

use super::{Played, aggregate, assignment, cluster, listener, routes};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// Routes lead to these clusters, of which none has arrived.
fn routed(clusters: &str) -> Played {
    let mut played = Played::new();
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.commands();
    played.got(&ResourceType::ROUTE, &routes("r", clusters));
    played.commands();
    played
}

/// Routes lead to cluster `a`, and these clusters arrive: `x=y z` is an aggregate of `y` and `z`, `x` a cluster with an
/// endpoint, `-x` a cluster that does not exist.
fn given(clusters: &[&str]) -> Played {
    let mut played = routed("a");
    for text in clusters {
        arrives(&mut played, text);
    }
    played
}

fn arrives(played: &mut Played, text: &str) {
    if let Some(name) = text.strip_prefix('-') {
        let error = format!("{name} does not exist");
        played.failed(&CDS, name, WatchErrorReason::DoesNotExist, &error);
    } else if let Some((name, children)) = text.split_once('=') {
        played.got(&CDS, &aggregate(name, children));
    } else {
        played.got(&CDS, &cluster(text));
        played.commands();
        played.got(&EDS, &assignment(text, 1));
    }
    played.commands();
}

fn cluster_a(config: &XdsConfig) -> Result<&Arc<ClusterConfig>, String> {
    let entry = config.clusters.iter().find(|entry| &*entry.name == "a");
    let config = &entry.expect("a cluster of the routes").config;
    config.as_ref().map_err(ToString::to_string)
}

/// Returns the names of the leaves of cluster `a`.
fn leaves(config: &XdsConfig) -> String {
    let cluster = cluster_a(config).expect("a usable cluster");
    let names = cluster.leaves.iter().map(|leaf| &*leaf.cluster.name);
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn c221_leaves_are_in_depth_first_order() {
    let mut played = given(&["a=b c d", "b=e f", "c", "d=g", "e", "f", "g"]);
    assert_eq!(leaves(&played.config()), "e f c g");
}

#[test]
fn c221_diamond_counts_where_it_is_reached_first() {
    let mut played = given(&["a=b c", "b=d e", "c=f d", "d", "e", "f"]);
    assert_eq!(leaves(&played.config()), "d e f");
}

#[test]
fn c221_cycle_ends() {
    let mut played = given(&["a=b c a", "b=a d b", "c", "d"]);
    assert_eq!(leaves(&played.config()), "d c");
}

#[test]
fn c221_cycle_without_leaf_is_an_error() {
    let mut played = given(&["a=b a", "b=a"]);
    let config = played.config();
    let error = cluster_a(&config).expect_err("no leaf");
    assert_eq!(
        error,
        "aggregate cluster \"a\" leads to no cluster with endpoints"
    );
}

/// A chain of aggregates, from `a` through `n1`, `n2`, … to the leaf, which is number `depth`.
fn chain(depth: usize) -> Vec<String> {
    let name = |index: usize| match index {
        1 => "a".to_owned(),
        _ => format!("n{index}"),
    };
    let links = (1..depth).map(|index| format!("{}={}", name(index), name(index + 1)));
    links.chain([name(depth)]).collect()
}

#[test]
fn c221_sixteen_clusters_deep_is_usable_and_seventeen_not() {
    let deepest = chain(16);
    let deepest: Vec<_> = deepest.iter().map(String::as_str).collect();
    let mut played = given(&deepest);
    assert_eq!(leaves(&played.config()), "n16");

    let too_deep = chain(17);
    let too_deep: Vec<_> = too_deep.iter().map(String::as_str).collect();
    let mut played = given(&too_deep[..15]);
    // The cluster that is nested too deep is not watched.
    played.got(&CDS, &aggregate("n16", "n17"));
    assert!(played.commands().is_empty());
    let config = played.config();
    let error = cluster_a(&config).expect_err("too deep");
    let text = "aggregate cluster \"a\" leads to clusters more than 16 deep";
    assert_eq!(error, text);
    // It recovers when the chain is shorter.
    arrives(&mut played, "n3=b");
    arrives(&mut played, "b");
    assert_eq!(leaves(&played.config()), "b");
}

#[test]
fn c221_missing_cluster_is_skipped() {
    let mut played = given(&["a=b c", "-b", "c"]);
    assert_eq!(leaves(&played.config()), "c");
    // It takes its place when it exists.
    arrives(&mut played, "b");
    assert_eq!(leaves(&played.config()), "b c");
}

#[test]
fn c221_aggregate_of_missing_clusters_fails_with_their_error() {
    let mut played = given(&["a=b c", "-b", "-c"]);
    let config = played.config();
    let error = cluster_a(&config).expect_err("no leaf");
    assert_eq!(
        error,
        "aggregate cluster \"a\" has no usable cluster, last error of \"c\": c does not exist"
    );
    arrives(&mut played, "c");
    assert_eq!(leaves(&played.config()), "c");
}

#[test]
fn c221_leaf_with_an_eds_error_stays_with_its_note() {
    let mut played = given(&["a=b c", "c"]);
    played.got(&CDS, &cluster("b"));
    played.commands();
    played.failed(&EDS, "b", WatchErrorReason::DoesNotExist, "no endpoints");
    let config = played.config();
    let [first, second] = &cluster_a(&config).unwrap().leaves[..] else {
        panic!("two leaves");
    };
    let note = first.note.as_ref().map(ToString::to_string);
    assert_eq!(note.as_deref(), Some("no endpoints"));
    assert!(first.assignment.is_none());
    assert!(second.assignment.is_some());
}

#[test]
fn c218_config_waits_for_every_cluster_of_an_aggregate() {
    let mut played = routed("a");
    played.got(&CDS, &aggregate("a", "b c"));
    assert_eq!(played.commands(), ["watch cds b", "watch cds c"]);
    played.silent();
    played.got(&CDS, &cluster("c"));
    assert_eq!(played.commands(), ["watch eds c"]);
    played.got(&EDS, &assignment("c", 1));
    played.silent();
    played.got(&CDS, &cluster("b"));
    assert_eq!(played.commands(), ["watch eds b"]);
    played.silent();
    played.got(&EDS, &assignment("b", 1));
    assert_eq!(leaves(&played.config()), "b c");
    assert!(played.commands().is_empty());
}

#[test]
fn c222_changed_list_takes_over_when_complete() {
    let mut played = given(&["a=b c", "b", "c"]);
    assert_eq!(leaves(&played.config()), "b c");
    played.got(&CDS, &aggregate("a", "d c"));
    assert_eq!(played.commands(), ["unwatch cds b", "watch cds d"]);
    played.silent();
    played.got(&CDS, &cluster("d"));
    // The endpoints of the old list stay watched while they are in use.
    assert_eq!(played.commands(), ["watch eds d"]);
    played.silent();
    played.got(&EDS, &assignment("d", 1));
    assert_eq!(leaves(&played.config()), "d c");
    assert_eq!(played.commands(), ["unwatch eds b"]);
}

#[test]
fn c221_order_of_the_list_is_followed() {
    let mut played = given(&["a=b c", "b", "c"]);
    let before = played.config();
    arrives(&mut played, "a=c b");
    let after = played.config();
    assert_eq!(leaves(&after), "c b");
    // Leaves that did not change are shared.
    let (before, after) = (cluster_a(&before).unwrap(), cluster_a(&after).unwrap());
    assert!(Arc::ptr_eq(&before.leaves[0], &after.leaves[1]));
    assert!(Arc::ptr_eq(&before.leaves[1], &after.leaves[0]));
}

#[test]
fn c221_watches_end_with_the_aggregate() {
    let mut played = given(&["a=b c", "b=d", "c", "d"]);
    played.config();
    played.got(&CDS, &cluster("a"));
    assert_eq!(
        played.commands(),
        [
            "unwatch cds b",
            "unwatch cds c",
            "unwatch cds d",
            "watch eds a"
        ]
    );
    played.silent();
    played.got(&EDS, &assignment("a", 1));
    assert_eq!(leaves(&played.config()), "a");
    assert_eq!(played.commands(), ["unwatch eds c", "unwatch eds d"]);
}

#[test]
fn c221_cluster_of_two_aggregates_is_watched_until_both_left_it() {
    let mut played = routed("a b");
    for text in ["a=c d", "b=d e", "c", "d", "e"] {
        arrives(&mut played, text);
    }
    let config = played.config();
    assert_eq!(config.clusters.len(), 2, "only the clusters of the routes");
    let of = |index: usize| &config.clusters[index].config.as_ref().unwrap().leaves;
    assert!(Arc::ptr_eq(&of(0)[1].cluster, &of(1)[0].cluster));
    played.got(&CDS, &aggregate("a", "c"));
    assert!(played.commands().is_empty());
    played.config();
    played.got(&CDS, &aggregate("b", "e"));
    assert_eq!(played.commands(), ["unwatch cds d", "unwatch eds d"]);
    played.config();
}

#[test]
fn c221_update_of_a_leaf_reaches_the_aggregate() {
    let mut played = given(&["a=b c", "b", "c"]);
    let before = played.config();
    played.got(&EDS, &assignment("c", 9));
    let after = played.config();
    let (before, after) = (cluster_a(&before).unwrap(), cluster_a(&after).unwrap());
    assert!(Arc::ptr_eq(&before.leaves[0], &after.leaves[0]));
    let endpoints = after.leaves[1].assignment.as_ref().unwrap().endpoints();
    let ports: Vec<_> = endpoints.map(|endpoint| endpoint.address.port()).collect();
    assert_eq!(ports, [9]);
}
