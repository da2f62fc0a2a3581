//! C-219, C-220: failures, and how much they affect.

use oxds_core::ads::WatchErrorReason;
use oxds_types::ResourceType;

use super::{Played, assignment, cluster, listener, routes, served_by, server};

#[test]
fn c219_deleted_listener_removes_config_until_it_returns() {
    let (mut played, _) = Played::serving();
    played.failed(
        &ResourceType::LISTENER,
        "l",
        WatchErrorReason::DoesNotExist,
        "l is gone",
    );
    assert_eq!(played.error(), "l is gone");
    assert_eq!(
        played.commands(),
        ["unwatch rds r", "unwatch cds a", "unwatch eds a"]
    );
    played.failed(
        &ResourceType::LISTENER,
        "l",
        WatchErrorReason::DoesNotExist,
        "l is gone",
    );
    played.silent();

    played.got(&ResourceType::LISTENER, &listener("r"));
    assert_eq!(played.commands(), ["watch rds r"]);
    played.silent();
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    played.commands();
    played.got(&ResourceType::CLUSTER, &cluster("a"));
    played.commands();
    played.got(&ResourceType::ENDPOINT, &assignment("a", 3));
    let config = played.config();
    assert_eq!(served_by(&config, "/"), "a:3");
    assert_eq!(config.revision, 2);
}

#[test]
fn c219_deleted_routes_remove_config_but_stay_watched() {
    let mut played = Played::new();
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.commands();
    played.failed(
        &ResourceType::ROUTE,
        "r",
        WatchErrorReason::Invalid,
        "r is invalid",
    );
    assert_eq!(played.error(), "r is invalid");
    assert!(played.commands().is_empty());
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    assert_eq!(played.commands(), ["watch cds a"]);
}

#[test]
fn c219_unreachable_server_is_error_without_config() {
    let mut played = Played::new();
    played.failed(
        &ResourceType::LISTENER,
        "l",
        WatchErrorReason::Unreachable,
        "connection refused",
    );
    assert_eq!(played.error(), "connection refused");
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.silent();
    played.failed(
        &ResourceType::ROUTE,
        "r",
        WatchErrorReason::Unreachable,
        "connection reset",
    );
    assert_eq!(played.error(), "connection reset");
}

#[test]
fn c219_error_names_authority_without_virtual_host() {
    let mut played = Played::new();
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.commands();
    played.got(
        &ResourceType::ROUTE,
        "name: 'r' virtual_hosts { name: 'h' domains: 'other' }",
    );
    assert_eq!(
        played.error(),
        "envoy.config.route.v3.RouteConfiguration \"r\" has no virtual host for \"svc\""
    );
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    assert_eq!(played.commands(), ["watch cds a"]);
}

#[test]
fn c178_socket_listener_is_a_telling_error() {
    let mut played = Played::new();
    played.got(
        &ResourceType::LISTENER,
        &server::listener(&[server::rds("r")]),
    );
    assert_eq!(
        played.error(),
        "envoy.config.listener.v3.Listener \"l\" is a socket listener: expected an api_listener"
    );
}

#[test]
fn c220_missing_cluster_fails_only_its_routes() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "a b"));
    played.commands();
    played.failed(
        &ResourceType::CLUSTER,
        "b",
        WatchErrorReason::DoesNotExist,
        "b does not exist",
    );
    let config = played.config();
    assert_eq!(served_by(&config, "/a"), "a:1");
    assert_eq!(served_by(&config, "/b"), "b: b does not exist");
    // It is still watched, and arrives.
    assert!(played.commands().is_empty());
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    assert_eq!(played.commands(), ["watch eds b"]);
    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    assert_eq!(served_by(&played.config(), "/b"), "b:2");
}

#[test]
fn c220_cluster_without_assignment_has_a_note() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::ROUTE, &routes("r", "a b"));
    played.commands();
    played.got(&ResourceType::CLUSTER, &cluster("b"));
    played.commands();
    played.failed(
        &ResourceType::ENDPOINT,
        "b",
        WatchErrorReason::DoesNotExist,
        "b has none",
    );
    let config = played.config();
    assert_eq!(served_by(&config, "/a"), "a:1");
    assert_eq!(served_by(&config, "/b"), "b: no endpoints: b has none");
}

#[test]
fn c220_deleted_cluster_fails_until_it_returns() {
    let (mut played, _) = Played::serving();
    played.failed(
        &ResourceType::CLUSTER,
        "a",
        WatchErrorReason::DoesNotExist,
        "a is gone",
    );
    assert_eq!(served_by(&played.config(), "/"), "a: a is gone");
    assert_eq!(played.commands(), ["unwatch eds a"]);
    played.failed(
        &ResourceType::CLUSTER,
        "a",
        WatchErrorReason::DoesNotExist,
        "a is gone",
    );
    played.silent();
    played.got(&ResourceType::CLUSTER, &cluster("a"));
    assert_eq!(played.commands(), ["watch eds a"]);
    played.silent();
    played.got(&ResourceType::ENDPOINT, &assignment("a", 4));
    assert_eq!(served_by(&played.config(), "/"), "a:4");
}

#[test]
fn c220_unwatched_resource_is_ignored() {
    let (mut played, _) = Played::serving();
    played.got(&ResourceType::CLUSTER, &cluster("other"));
    played.got(&ResourceType::ENDPOINT, &assignment("other", 1));
    played.failed(
        &ResourceType::LISTENER,
        "other",
        WatchErrorReason::DoesNotExist,
        "other",
    );
    played.silent();
    assert!(played.commands().is_empty());
}
