//! C-218, C-223: one configuration out of many resources.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::resolve::CompiledAction;
use oxds_types::ResourceType;

use super::{
    NoHeaders, Played, assignment, cluster, cluster_of, listener, listener_with, routes, served_by,
};

#[test]
fn c218_config_is_announced_once_complete() {
    let mut played = Played::new();
    assert_eq!(played.commands(), ["watch lds l"]);
    played.got(&ResourceType::LISTENER, &listener("r"));
    assert_eq!(played.commands(), ["watch rds r"]);
    played.silent();
    played.got(&ResourceType::ROUTE, &routes("r", "a b"));
    assert_eq!(played.commands(), ["watch cds a", "watch cds b"]);
    played.silent();
    played.got(&ResourceType::CLUSTER, &cluster("a"));
    assert_eq!(played.commands(), ["watch eds a"]);
    played.got(&ResourceType::ENDPOINT, &assignment("a", 1));
    played.silent();
    played.got(&ResourceType::CLUSTER, &cluster_of("b", "of-b"));
    assert_eq!(played.commands(), ["watch eds of-b"]);
    played.silent();

    played.got(&ResourceType::ENDPOINT, &assignment("of-b", 2));
    let config = played.config();
    assert_eq!(config.revision, 1);
    assert_eq!(config.routes.virtual_host, "h");
    assert_eq!(served_by(&config, "/a"), "a:1");
    assert_eq!(served_by(&config, "/b"), "b:2");
    assert_eq!(served_by(&config, "/else"), "a:1");
    played.silent();
    assert!(played.commands().is_empty());
}

#[test]
fn c218_resources_before_a_poll_make_one_config() {
    let (mut played, _) = Played::serving();
    for port in 2..9 {
        played.got(&ResourceType::ENDPOINT, &assignment("a", port));
    }
    assert_eq!(served_by(&played.config(), "/a"), "a:8");
    played.silent();
}

#[test]
fn c218_cluster_of_many_routes_is_listed_once() {
    let mut played = Played::new();
    played.commands();
    let weighted = "weighted_clusters { clusters { name: 'b' weight { value: 1 } } clusters { name: 'a' weight { value: 3 } } }";
    played.got(
        &ResourceType::LISTENER,
        &listener_with(&format!(
            "route_config {{ virtual_hosts {{ name: 'h' domains: '*'
               routes {{ match {{ path: '/a' }} route {{ cluster: 'a' }} }}
               routes {{ match {{ prefix: '' }} route {{ {weighted} }} }} }} }}"
        )),
    );
    assert_eq!(played.commands(), ["watch cds a", "watch cds b"]);
    for name in ["a", "b"] {
        played.got(&ResourceType::CLUSTER, &cluster(name));
        played.commands();
        played.got(&ResourceType::ENDPOINT, &assignment(name, 1));
    }
    let config = played.config();
    let names: Vec<_> = config.clusters.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    let route = config.route("/else", &NoHeaders, || 0).unwrap();
    let CompiledAction::Forward { clusters, .. } = &route.action else {
        panic!("the route forwards");
    };
    // C-230: one random number chooses; three of four go to the heavier cluster.
    let quarter = 1 << 62;
    assert_eq!(
        config.clusters[clusters.pick(quarter - 1).cluster].name,
        "b".into()
    );
    assert_eq!(
        config.clusters[clusters.pick(quarter).cluster].name,
        "a".into()
    );
}

#[test]
fn c218_routes_without_clusters_are_complete() {
    let mut played = Played::new();
    played.got(
        &ResourceType::LISTENER,
        &listener_with("route_config { virtual_hosts { name: 'h' domains: '*' routes { match { prefix: '' } redirect {} } } }"),
    );
    let config = played.config();
    assert!(config.clusters.is_empty());
    // C-229: the route matches, but its action is unsupported.
    assert_eq!(served_by(&config, "/a"), "unsupported");
}

#[test]
fn c223_virtual_host_is_chosen_by_authority() {
    let mut played = Played::new();
    played.got(
        &ResourceType::LISTENER,
        &listener_with(
            "route_config {
               virtual_hosts { name: 'any' domains: '*' routes { match { prefix: '' } route { cluster: 'x' } } }
               virtual_hosts { name: 'mine' domains: 'SVC' } }",
        ),
    );
    let config = played.config();
    assert_eq!(config.routes.virtual_host, "mine");
    assert!(
        config.route("/a", &NoHeaders, || 0).is_none(),
        "c229: no route of its own matches"
    );
    assert_eq!(
        played.commands(),
        ["watch lds l"],
        "what other hosts name is not watched"
    );
}

#[test]
fn c233_listener_limit_applies_to_routes_without_one() {
    let mut played = Played::new();
    played.got(
        &ResourceType::LISTENER,
        &listener_with(
            "common_http_protocol_options { max_stream_duration { seconds: 9 } }
             route_config { virtual_hosts { name: 'h' domains: '*'
               routes { match { path: '/own' } route { cluster: 'a' max_stream_duration { max_stream_duration { seconds: 2 } } } }
               routes { match { path: '/none' } route { cluster: 'a' max_stream_duration { max_stream_duration {} } } }
               routes { match { prefix: '' } route { cluster: 'a' } } } }",
        ),
    );
    played.commands();
    played.got(&ResourceType::CLUSTER, &cluster("a"));
    played.commands();
    played.got(&ResourceType::ENDPOINT, &assignment("a", 1));
    let config = played.config();
    for (path, expected) in [
        ("/own", Some(Duration::from_secs(2))),
        ("/none", None),
        ("/else", Some(Duration::from_secs(9))),
    ] {
        let route = config.route(path, &NoHeaders, || 0).unwrap();
        let CompiledAction::Forward { limit, .. } = route.action else {
            panic!("{path} forwards");
        };
        assert_eq!(limit, expected, "{path}");
    }
}

#[test]
fn c218_unchanged_parts_keep_their_arc() {
    let mut played = Played::new();
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.commands();
    played.got(&ResourceType::ROUTE, &routes("r", "a b"));
    played.commands();
    for name in ["a", "b"] {
        played.got(&ResourceType::CLUSTER, &cluster(name));
        played.commands();
        played.got(&ResourceType::ENDPOINT, &assignment(name, 1));
    }
    let before = played.config();

    played.got(&ResourceType::ENDPOINT, &assignment("b", 2));
    let after = played.config();
    assert_eq!(after.revision, 2);
    assert!(Arc::ptr_eq(&before.listener, &after.listener));
    assert!(Arc::ptr_eq(&before.route_config, &after.route_config));
    assert!(Arc::ptr_eq(&before.routes, &after.routes));
    let cluster = |config: &oxds_core::resolve::XdsConfig, index: usize| {
        Arc::clone(config.clusters[index].config.as_ref().unwrap())
    };
    assert!(Arc::ptr_eq(&cluster(&before, 0), &cluster(&after, 0)));
    assert!(!Arc::ptr_eq(&cluster(&before, 1), &cluster(&after, 1)));
    assert!(Arc::ptr_eq(
        &cluster(&before, 1).cluster,
        &cluster(&after, 1).cluster
    ));
    assert!(played.commands().is_empty());
}
