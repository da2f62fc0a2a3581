//! C-166, C-222, C-231: what is in use goes on until its successor is whole.

use oxds_core::ads::WatchErrorReason;
use oxds_types::ResourceType;

use super::{Played, assignment, cluster, cluster_of, listener, listener_with, routes, served_by};

#[test]
fn c222_other_routes_take_over_when_all_that_they_need_is_there() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::LISTENER, &listener("r2"));
    assert_eq!(played.commands(), ["watch rds r2"]);
    played.silent();
    played.got(&ResourceType::ROUTE, &routes("r2", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    assert_eq!(played.commands(), ["watch eds b"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    assert_eq!(served_by(&played.config(), "/"), "b:2");
    assert_eq!(
        played.commands(),
        ["unwatch rds r", "unwatch cds a", "unwatch eds a"]
    );
}

#[test]
fn c222_what_is_in_use_is_kept_up_to_date_while_its_successor_is_awaited() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("a", 7));
    assert_eq!(served_by(&played.config(), "/"), "a:7");
}

/// go-control-plane deletes a cluster as soon as its routes are sent; found by interop, where calls failed.
#[test]
fn c222_a_cluster_that_is_about_to_be_left_serves_on_when_it_is_deleted_too_soon() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.failed(
        &ResourceType::CLUSTER,
        "a",
        WatchErrorReason::DoesNotExist,
        "a is gone",
    );
    played.silent();
    assert!(played.commands().is_empty(), "its endpoints are in use");
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    assert_eq!(played.commands(), ["watch eds b"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    assert_eq!(served_by(&played.config(), "/"), "b:2");
    assert_eq!(played.commands(), ["unwatch cds a", "unwatch eds a"]);
}

#[test]
fn c222_a_cluster_that_is_deleted_and_not_left_fails_though_other_routes_are_awaited() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "a b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.failed(
        &ResourceType::CLUSTER,
        "a",
        WatchErrorReason::DoesNotExist,
        "a is gone",
    );
    assert_eq!(served_by(&played.config(), "/a"), "a: a is gone");
}

#[test]
fn c222_from_rds_to_routes_in_the_listener_and_back() {
    let (mut played, _) = Played::serving();
    let inline = listener_with(
        "route_config { virtual_hosts { name: 'inline' domains: '*' routes { match { prefix: '' } route { cluster: 'a' } } } }",
    );
    played.got(&ResourceType::LISTENER, &inline);
    assert_eq!(played.commands(), ["unwatch rds r"]);
    assert_eq!(played.config().routes.virtual_host, "inline");

    played.got(&ResourceType::LISTENER, &listener("r"));
    assert_eq!(played.commands(), ["watch rds r"]);
    played.silent();
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    assert_eq!(played.config().routes.virtual_host, "h");
    assert!(played.commands().is_empty());
}

#[test]
fn c222_a_cluster_with_another_assignment_is_served_by_the_one_before_until_then() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::CLUSTER, &cluster_of("a", "new"));
    assert_eq!(played.commands(), ["watch eds new"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("new", 5));
    assert_eq!(served_by(&played.config(), "/"), "a:5");
    assert_eq!(played.commands(), ["unwatch eds a"]);
}

#[test]
fn c222_a_change_taken_back_before_it_was_whole_changes_nothing() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    let config = played.config();
    assert_eq!(served_by(&config, "/"), "a:1");
    assert_eq!(played.commands(), ["unwatch cds b"]);
    // What comes for it late is nobody's.
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.silent();
    assert!(played.commands().is_empty());
}

#[test]
fn c231_a_cluster_is_dropped_with_the_routes_that_named_it_not_before() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    played.commands();
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.commands();
    // Still routed by the old routes, hence still there.
    assert!(played.commands().is_empty());
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    let config = played.config();
    assert_eq!(config.clusters.len(), 1);
    assert_eq!(served_by(&config, "/a"), "b:2");
}

#[test]
fn c166_a_server_lost_in_the_middle_of_a_change_leaves_the_old_routes_in_use() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.failed(
        &ResourceType::CLUSTER,
        "b",
        WatchErrorReason::Unreachable,
        "connection refused",
    );
    played.silent();
    // It comes back.
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.commands();
    played.failed(
        &ResourceType::ENDPOINT,
        "b",
        WatchErrorReason::Unreachable,
        "connection refused",
    );
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    assert_eq!(served_by(&played.config(), "/"), "b:2");
}

#[test]
fn c166_so_does_one_lost_before_other_routes_or_another_assignment_came() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::CLUSTER, &cluster_of("a", "new"));
    played.commands();
    played.failed(
        &ResourceType::ENDPOINT,
        "new",
        WatchErrorReason::Unreachable,
        "connection refused",
    );
    played.silent();
    played.got(&ResourceType::LISTENER, &listener("r2"));
    played.commands();
    played.failed(
        &ResourceType::ROUTE,
        "r2",
        WatchErrorReason::Unreachable,
        "connection refused",
    );
    played.silent();
    assert!(played.commands().is_empty());
}

#[test]
fn c222_a_change_that_the_server_answers_with_an_error_is_made() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    played.commands();
    played.failed(
        &ResourceType::CLUSTER,
        "b",
        WatchErrorReason::DoesNotExist,
        "does not exist",
    );
    assert_eq!(served_by(&played.config(), "/"), "b: does not exist");
}
