//! C-131, C-196, C-199 – C-203: clusters.

use oxds_core::resource::MetricSelection;
use oxds_core::resource::{Cluster, LrsServer};

use crate::support::text::{accepted, rejected};

const EDS: &str = "type: EDS eds_cluster_config { eds_config { ads {} } }";
const ROUND_ROBIN: &str = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";
const RING_HASH: &str = "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash";
const WRR_LOCALITY: &str = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality";

/// A valid EDS cluster with these fields besides.
fn with(fields: &str) -> Cluster {
    accepted(&format!("name: 'c' {EDS} {fields}"))
}

/// What is wrong with it.
fn fault(fields: &str) -> String {
    let error = rejected::<Cluster>(&format!("name: 'c' {EDS} {fields}"));
    let field = error.strip_prefix("c: ");
    field.expect("the cluster is named").to_owned()
}

fn policy(message: &str, fields: &str) -> String {
    format!(
        "policies {{ typed_extension_config {{ name: 'p' typed_config {{
           [type.googleapis.com/{message}] {{ {fields} }} }} }} }}"
    )
}

#[test]
fn c196_endpoints_come_from_the_same_server() {
    for source in ["ads {}", "self {}"] {
        let text =
            format!("name: 'c' type: EDS eds_cluster_config {{ eds_config {{ {source} }} }}");
        assert_eq!(
            &*accepted::<Cluster>(&text).eds_service_name,
            "c",
            "{source}"
        );
    }
    assert_eq!(
        rejected::<Cluster>("name: 'c' type: EDS eds_cluster_config { eds_config { path: '/f' } }"),
        "c: eds_cluster_config.eds_config: must be ads or self"
    );
    assert_eq!(
        rejected::<Cluster>("name: 'c' type: EDS"),
        "c: eds_cluster_config: must be set"
    );
    assert_eq!(rejected::<Cluster>(EDS), "name: must not be empty");
}

#[test]
fn c196_an_assignment_may_have_a_name_of_its_own_and_must_for_an_xdstp_cluster() {
    let named = "type: EDS eds_cluster_config { service_name: 's' eds_config { ads {} } }";
    assert_eq!(
        &*accepted::<Cluster>(&format!("name: 'c' {named}")).eds_service_name,
        "s"
    );
    let xdstp = "name: 'xdstp://a/envoy.config.cluster.v3.Cluster/c'";
    assert_eq!(
        &*accepted::<Cluster>(&format!("{xdstp} {named}")).eds_service_name,
        "s"
    );
    assert!(
        rejected::<Cluster>(&format!("{xdstp} {EDS}"))
            .contains("eds_cluster_config.service_name: must be set")
    );
}

#[test]
fn c198_other_types_of_cluster_are_rejected_by_name() {
    for (text, error) in [
        (
            "type: STRICT_DNS",
            "type: STRICT_DNS is not supported, only EDS is",
        ),
        (
            "type: LOGICAL_DNS",
            "type: LOGICAL_DNS is not supported, only EDS is",
        ),
        ("type: STATIC", "type: STATIC is not supported, only EDS is"),
        ("", "type: STATIC is not supported, only EDS is"),
        (
            "cluster_type { name: 'x' }",
            "cluster_type: \"x\" is not supported",
        ),
    ] {
        assert_eq!(
            rejected::<Cluster>(&format!("name: 'c' {text}")),
            format!("c: {error}")
        );
    }
}

#[test]
fn c199_the_policy_is_round_robin() {
    with("lb_policy: ROUND_ROBIN");
    for other in ["RING_HASH", "LEAST_REQUEST", "RANDOM", "MAGLEV"] {
        assert_eq!(
            fault(&format!("lb_policy: {other}")),
            format!("lb_policy: {other} is not supported, only ROUND_ROBIN is")
        );
    }
    assert_eq!(fault("lb_policy: 99"), "lb_policy: is unknown");
}

#[test]
fn c199_the_policy_does_not_count_where_a_newer_field_overrides_it() {
    let round_robin = policy(ROUND_ROBIN, "");
    with(&format!(
        "lb_policy: MAGLEV load_balancing_policy {{ {round_robin} }}"
    ));
}

#[test]
fn c200_the_first_policy_that_is_supported_counts() {
    let chosen = |policies: &[&str]| format!("load_balancing_policy {{ {} }}", policies.join(" "));
    let unknown = policy(RING_HASH, "");
    let round_robin = policy(ROUND_ROBIN, "");
    with(&chosen(&[&unknown, &round_robin]));
    let none = "load_balancing_policy: must have a supported policy: round_robin, alone or in wrr_locality";
    assert_eq!(fault(&chosen(&[&unknown])), none);
    assert_eq!(fault(&chosen(&[])), none);

    let of_localities = |inner: &str| {
        policy(
            WRR_LOCALITY,
            &format!("endpoint_picking_policy {{ {inner} }}"),
        )
    };
    with(&chosen(&[&of_localities(&round_robin)]));
    assert_eq!(fault(&chosen(&[&of_localities(&unknown)])), none);
    with(&chosen(&[&of_localities(&unknown), &round_robin]));
    assert_eq!(
        fault(&chosen(&[&policy(WRR_LOCALITY, "")])),
        "load_balancing_policy: endpoint_picking_policy: must be set"
            .replace("policy: e", "policy.e")
    );
}

#[test]
fn c200_policies_are_nested_sixteen_deep_at_most() {
    let nested = |depth: usize| {
        (0..depth).fold(policy(ROUND_ROBIN, ""), |inner, _| {
            policy(
                WRR_LOCALITY,
                &format!("endpoint_picking_policy {{ {inner} }}"),
            )
        })
    };
    with(&format!("load_balancing_policy {{ {} }}", nested(16)));
    assert_eq!(
        fault(&format!("load_balancing_policy {{ {} }}", nested(17))),
        "load_balancing_policy: must be nested at most 16 deep"
    );
}

#[test]
fn c201_the_first_threshold_of_the_default_priority_bounds_requests() {
    assert_eq!(with("").max_requests, 1024);
    let high = "thresholds { priority: HIGH max_requests { value: 1 } }";
    assert_eq!(
        with(&format!("circuit_breakers {{ {high} }}")).max_requests,
        1024
    );
    let both = format!(
        "circuit_breakers {{ {high} thresholds {{ max_requests {{ value: 7 }} }}
           thresholds {{ max_requests {{ value: 8 }} }} }}"
    );
    assert_eq!(with(&both).max_requests, 7);
    // The first counts even where it says nothing.
    let silent = "circuit_breakers { thresholds {} thresholds { max_requests { value: 8 } } }";
    assert_eq!(with(silent).max_requests, 1024);
}

#[test]
fn c202_outlier_detection_is_checked() {
    with("outlier_detection { interval { seconds: 10 } max_ejection_percent { value: 100 } }");
    for field in ["interval", "base_ejection_time", "max_ejection_time"] {
        assert_eq!(
            fault(&format!(
                "outlier_detection {{ {field} {{ seconds: -1 }} }}"
            )),
            format!("outlier_detection.{field}: must be a duration that is not negative")
        );
    }
    for field in [
        "max_ejection_percent",
        "enforcing_success_rate",
        "failure_percentage_threshold",
        "enforcing_failure_percentage",
    ] {
        assert_eq!(
            fault(&format!("outlier_detection {{ {field} {{ value: 101 }} }}")),
            format!("outlier_detection.{field}: must not be above 100")
        );
    }
}

#[test]
fn c203_a_cluster_that_asks_for_security_is_not_reached_without() {
    assert_eq!(
        fault("transport_socket { name: 'tls' }"),
        "transport_socket: \"tls\" is not supported"
    );
    assert_eq!(
        fault("transport_socket_matches { name: 'm' }"),
        "transport_socket_matches: is not supported"
    );
}

#[test]
fn c131_load_is_reported_to_the_same_server_or_not_at_all() {
    assert_eq!(with("").lrs_server, None);
    assert_eq!(
        with("lrs_server { self {} }").lrs_server,
        Some(LrsServer::ThisServer)
    );
    assert_eq!(fault("lrs_server { ads {} }"), "lrs_server: must be self");
    assert_eq!(fault("lrs_server {}"), "lrs_server: must be self");
}

#[test]
fn c143_a_cluster_lists_the_metrics_that_are_reported_along() {
    assert!(with("").lrs_metrics.is_empty());
    assert_eq!(
        with("lrs_report_endpoint_metrics: 'cpu_utilization'").lrs_metrics,
        MetricSelection::new(["cpu_utilization"])
    );
}
