//! C-166, C-222, C-231: the plan in use stays until the next one is complete.

use oxds_core::ads::WatchErrorReason;
use oxds_types::ResourceType;

use super::{Played, assignment, cluster, cluster_of, listener, listener_with, routes, served_by};

#[test]
fn c222_new_routes_take_over_when_complete() {
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
fn c222_plan_in_use_is_updated_while_next_is_incomplete() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("a", 7));
    assert_eq!(served_by(&played.config(), "/"), "a:7");
}

/// go-control-plane deletes a cluster as soon as its new routes are sent; interop found it, since calls failed.
#[test]
fn c222_cluster_deleted_before_its_routes_stays_in_use() {
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
fn c222_deleted_cluster_still_in_next_plan_fails() {
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
fn c222_switch_between_rds_and_inline_routes() {
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
fn c222_new_eds_name_uses_old_assignment_until_new_arrives() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::CLUSTER, &cluster_of("a", "new"));
    assert_eq!(played.commands(), ["watch eds new"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("new", 5));
    assert_eq!(served_by(&played.config(), "/"), "a:5");
    assert_eq!(played.commands(), ["unwatch eds a"]);
}

#[test]
fn c222_change_reverted_while_incomplete_is_no_change() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    assert_eq!(played.commands(), ["watch cds b"]);
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    let config = played.config();
    assert_eq!(served_by(&config, "/"), "a:1");
    assert_eq!(played.commands(), ["unwatch cds b"]);
    // A late resource for it is ignored.
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.silent();
    assert!(played.commands().is_empty());
}

#[test]
fn c231_cluster_is_dropped_with_its_routes_not_before() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "b"));
    played.commands();
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.commands();
    // The old routes still use it, so it is still there.
    assert!(played.commands().is_empty());
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    let config = played.config();
    assert_eq!(config.clusters.len(), 1);
    assert_eq!(served_by(&config, "/a"), "b:2");
}

#[test]
fn c166_server_lost_mid_update_keeps_old_routes() {
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
    // It returns.
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
fn c166_server_lost_before_new_routes_keeps_old_config() {
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
fn c222_error_answer_completes_the_next_plan() {
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
