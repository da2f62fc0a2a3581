//! Shares of priorities, localities and endpoints.

use oxds_core::explain::{Decision, RuleSet};

use super::{Made, rpc};

fn endpoint(port: u32, more: &str) -> String {
    format!(
        "lb_endpoints {{ endpoint {{ address {{ socket_address {{ address: '10.0.0.1' port_value: {port} }} }} }} {more} }}"
    )
}

fn locality(zone: &str, fields: &str, endpoints: &[(u32, &str)]) -> String {
    let endpoints: String = endpoints
        .iter()
        .map(|(port, more)| endpoint(*port, more))
        .collect();
    format!("endpoints {{ locality {{ zone: '{zone}' }} {fields} {endpoints} }}")
}

/// The decision about a request to a cluster with these fields and endpoints.
fn decided(rules: RuleSet, fields: &str, localities: &[String]) -> Decision {
    let route = "routes { match { prefix: '' } route { cluster: 'a' } }";
    let made = Made::all(route).cluster("a", fields, &localities.concat());
    made.by(rules, &rpc("/x"))
}

/// Each endpoint with its share in percent, or why it is not used.
fn shares(decision: &Decision) -> Vec<String> {
    let cluster = &decision.clusters[0];
    let localities = cluster.priorities.iter().flat_map(|one| &one.localities);
    let endpoints = localities.flat_map(|locality| &locality.endpoints);
    let texts = endpoints.map(|one| {
        let port = one.address.rsplit(':').next().unwrap();
        match (&one.unused, one.share) {
            (Some(unused), _) => format!("{port} {unused}"),
            (None, Some(share)) => format!("{port} {:.2}", share * 100.0),
            (None, None) => format!("{port} ?"),
        }
    });
    texts.collect()
}

const W1: &str = "load_balancing_weight { value: 1 }";
const W3: &str = "load_balancing_weight { value: 3 }";

#[test]
fn grpc_spreads_by_locality_then_evenly() {
    let localities = [
        locality("a", W1, &[(1, ""), (2, W3)]),
        locality(
            "b",
            W3,
            &[
                (3, "health_status: HEALTHY"),
                (4, "health_status: UNHEALTHY"),
                (5, "health_status: DRAINING"),
            ],
        ),
        locality("c", "", &[(6, "")]),
        locality("d", &format!("priority: 1 {W1}"), &[(7, "")]),
    ];
    let decision = decided(RuleSet::Grpc, "", &localities);
    assert_eq!(
        shares(&decision),
        [
            "1 12.50",
            "2 12.50",
            "3 75.00",
            "4 not healthy",
            "5 draining: only its sessions use it",
            "6 the locality has no weight",
            "7 0.00",
        ]
    );
    let priorities = &decision.clusters[0].priorities;
    assert_eq!((priorities[0].share, priorities[1].share), (1.0, 0.0));
    assert_eq!(
        priorities[0].localities[1].health(),
        ["HEALTHY", "UNHEALTHY", "DRAINING"]
    );
}

trait Health {
    fn health(&self) -> Vec<&str>;
}

impl Health for oxds_core::explain::LocalityStep {
    fn health(&self) -> Vec<&str> {
        self.endpoints
            .iter()
            .map(|one| one.health.as_str())
            .collect()
    }
}

#[test]
fn grpc_ring_spreads_by_weights() {
    let localities = [
        locality("a", W1, &[(1, W1), (2, W3)]),
        locality("b", W3, &[(3, W1)]),
    ];
    let decision = decided(RuleSet::Grpc, "lb_policy: RING_HASH", &localities);
    assert_eq!(shares(&decision), ["1 14.29", "2 42.86", "3 42.86"]);
    assert!(
        decision.clusters[0].notes[0].contains("hash"),
        "{decision:?}"
    );
}

#[test]
fn envoy_spreads_by_weights_of_endpoints() {
    let localities = [
        locality("a", W1, &[(1, W1), (2, W3)]),
        locality("b", W3, &[(3, ""), (4, "health_status: UNHEALTHY")]),
    ];
    let by_endpoint = decided(RuleSet::Envoy, "", &localities);
    assert_eq!(
        shares(&by_endpoint),
        ["1 20.00", "2 60.00", "3 20.00", "4 not healthy"]
    );
    let by_locality = "common_lb_config { locality_weighted_lb_config {} }";
    let by_locality = decided(RuleSet::Envoy, by_locality, &localities);
    // Locality b counts as 3 × 70 %: half of its endpoints, times 1.4.
    assert_eq!(
        shares(&by_locality),
        ["1 8.06", "2 24.19", "3 67.74", "4 not healthy"]
    );
}

#[test]
fn envoy_spills_to_the_next_priority() {
    let down = "health_status: UNHEALTHY";
    let localities = [
        locality("a", W1, &[(1, ""), (2, down), (3, down), (4, down)]),
        locality("b", "priority: 1", &[(5, "")]),
    ];
    let decision = decided(RuleSet::Envoy, "", &localities);
    // A quarter, times 1.4, is 35 %; the second priority has the rest.
    assert_eq!(shares(&decision)[0], "1 35.00");
    assert_eq!(shares(&decision)[4], "5 65.00");
    let alone = decided(RuleSet::Envoy, "", &localities[..1]);
    assert_eq!(
        shares(&alone),
        ["1 25.00", "2 25.00", "3 25.00", "4 25.00"],
        "panic"
    );
}

#[test]
fn envoy_spills_by_weights_on_request() {
    let localities = [
        locality("a", W1, &[(1, W3), (2, "health_status: UNHEALTHY")]),
        locality("b", "priority: 1", &[(3, "")]),
    ];
    let by_number = decided(RuleSet::Envoy, "", &localities);
    assert_eq!(shares(&by_number), ["1 70.00", "2 not healthy", "3 30.00"]);
    // Three quarters of the weight, times 1.4, is more than all.
    let policy = "policy { weighted_priority_health: true }".to_owned();
    let by_weight = [&[policy], &localities[..]].concat();
    let by_weight = decided(RuleSet::Envoy, "", &by_weight);
    assert_eq!(shares(&by_weight), ["1 100.00", "2 not healthy", "3 0.00"]);
}

#[test]
fn aggregate_shows_the_clusters_in_order() {
    let route = "routes { match { prefix: '' } route { cluster: 'both' } }";
    let aggregate = "name: 'both' lb_policy: CLUSTER_PROVIDED cluster_type { name: 'envoy.clusters.aggregate' typed_config {
        [type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig] { clusters: 'a' clusters: 'b' } } }";
    let empty = locality("z", W1, &[(1, "health_status: UNHEALTHY")]);
    let made = Made::all(route)
        .with(&oxds_types::ResourceType::CLUSTER, aggregate)
        .cluster("a", "", &empty)
        .cluster("b", "", &locality("z", W1, &[(2, "")]));
    let decision = made.by(RuleSet::Grpc, &rpc("/x"));
    assert_eq!(shares(&decision), ["1 not healthy", "2 100.00"]);
    let names: Vec<_> = decision.clusters[0]
        .priorities
        .iter()
        .map(|one| &*one.cluster)
        .collect();
    assert_eq!(names, ["a", "b"]);
}
