//! C-131, C-196, C-199 – C-203: validation of clusters.

use std::time::Duration;

use oxds_core::lb::{FailurePercentage, OutlierConfig, SuccessRate};
use oxds_core::resource::MetricSelection;
use oxds_core::resource::{Cluster, LrsServer};

use crate::support::text::{accepted, rejected};

const EDS: &str = "type: EDS eds_cluster_config { eds_config { ads {} } }";
const ROUND_ROBIN: &str = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";
const RING_HASH: &str = "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash";
const WRR_LOCALITY: &str = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality";

/// A valid EDS cluster with these additional fields.
fn with(fields: &str) -> Cluster {
    accepted(&format!("name: 'c' {EDS} {fields}"))
}

/// Returns the validation error.
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
fn c196_eds_config_must_be_the_same_server() {
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
fn c196_xdstp_cluster_needs_an_eds_service_name() {
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
fn c198_other_cluster_types_are_rejected_by_name() {
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
fn c199_lb_policy_must_be_round_robin() {
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
fn c199_load_balancing_policy_overrides_lb_policy() {
    let round_robin = policy(ROUND_ROBIN, "");
    with(&format!(
        "lb_policy: MAGLEV load_balancing_policy {{ {round_robin} }}"
    ));
}

#[test]
fn c200_first_supported_policy_counts() {
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
fn c200_policies_are_nested_at_most_16_deep() {
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
fn c201_first_default_threshold_limits_requests() {
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
    // The first one counts, even if it sets no limit.
    let silent = "circuit_breakers { thresholds {} thresholds { max_requests { value: 8 } } }";
    assert_eq!(with(silent).max_requests, 1024);
}

#[test]
fn c202_outlier_detection_is_validated() {
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
fn c202_outlier_detection_has_envoys_defaults() {
    assert_eq!(with("").outlier, None);
    let outlier = |fields: &str| {
        let cluster = with(&format!("outlier_detection {{ {fields} }}"));
        cluster.outlier.unwrap()
    };
    let defaults = OutlierConfig {
        interval: Duration::from_secs(10),
        base_ejection_time: Duration::from_secs(30),
        max_ejection_time: Duration::from_secs(300),
        max_ejection_percent: 10,
        success_rate: Some(SuccessRate {
            stdev_factor: 1900,
            enforcement_percentage: 100,
            minimum_hosts: 5,
            request_volume: 100,
        }),
        failure_percentage: None,
    };
    assert_eq!(outlier(""), defaults);
    let off = outlier("enforcing_success_rate {} enforcing_failure_percentage {}");
    assert!(off.is_off());
    let failures = outlier("enforcing_success_rate {} enforcing_failure_percentage { value: 7 }");
    let expected = FailurePercentage {
        threshold: 85,
        enforcement_percentage: 7,
        minimum_hosts: 5,
        request_volume: 50,
    };
    assert_eq!(failures.success_rate, None);
    assert_eq!(failures.failure_percentage, Some(expected));
}

/// An interval of zero must not make the channel decide without a pause.
#[test]
fn c202_interval_of_zero_becomes_a_millisecond() {
    let cluster = with("outlier_detection { interval {} }");
    assert_eq!(cluster.outlier.unwrap().interval, Duration::from_millis(1));
}

#[test]
fn c203_cluster_with_transport_socket_is_rejected() {
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
fn c131_lrs_server_must_be_self_or_unset() {
    assert_eq!(with("").lrs_server, None);
    assert_eq!(
        with("lrs_server { self {} }").lrs_server,
        Some(LrsServer::ThisServer)
    );
    assert_eq!(fault("lrs_server { ads {} }"), "lrs_server: must be self");
    assert_eq!(fault("lrs_server {}"), "lrs_server: must be self");
}

#[test]
fn c143_cluster_lists_the_reported_metrics() {
    assert!(with("").lrs_metrics.is_empty());
    assert_eq!(
        with("lrs_report_endpoint_metrics: 'cpu_utilization'").lrs_metrics,
        MetricSelection::new(["cpu_utilization"])
    );
}
