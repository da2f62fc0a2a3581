//! C-131, C-196 – C-202: validation of clusters.

use std::time::Duration;

use oxds_core::lb::{EndpointHealth, FailurePercentage, OutlierConfig, SuccessRate};
use oxds_core::resource::MetricSelection;
use oxds_core::resource::{Cluster, Discovery, DnsTarget, LrsServer};

use super::cluster_policy::{chosen, policy};
use crate::support::text::{accepted, rejected};

const EDS: &str = "type: EDS eds_cluster_config { eds_config { ads {} } }";
const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
const MAGLEV: &str = "envoy.extensions.load_balancing_policies.maglev.v3.Maglev";
const ROUND_ROBIN: &str = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";

/// A valid EDS cluster with these additional fields.
pub(super) fn with(fields: &str) -> Cluster {
    accepted(&format!("name: 'c' {EDS} {fields}"))
}

/// Returns the validation error.
pub(super) fn fault(fields: &str) -> String {
    let error = rejected::<Cluster>(&format!("name: 'c' {EDS} {fields}"));
    let field = error.strip_prefix("c: ");
    field.expect("the cluster is named").to_owned()
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
fn c197_logical_dns_has_one_locality_and_one_endpoint() {
    let dns = |assignment: &str| format!("name: 'c' type: LOGICAL_DNS {assignment}");
    let socket = |fields: &str| {
        format!(
            "load_assignment {{ endpoints {{ lb_endpoints {{ endpoint {{
               address {{ socket_address {{ {fields} }} }} }} }} }} }}"
        )
    };
    let good = socket("address: 'shop.example' port_value: 443");
    let cluster = accepted::<Cluster>(&dns(&good));
    let expected = DnsTarget {
        host: "shop.example".into(),
        port: 443,
    };
    assert_eq!(cluster.discovery, Discovery::LogicalDns(expected));
    assert_eq!(&*cluster.eds_service_name, "");
    let address = ".endpoints[0].lb_endpoints[0].endpoint.address.socket_address";
    for (assignment, rule) in [
        (String::new(), ": must be set".to_owned()),
        (
            "load_assignment {}".to_owned(),
            ".endpoints: must have exactly one locality".to_owned(),
        ),
        (
            "load_assignment { endpoints {} endpoints {} }".to_owned(),
            ".endpoints: must have exactly one locality".to_owned(),
        ),
        (
            "load_assignment { endpoints { lb_endpoints {} lb_endpoints {} } }".to_owned(),
            ".endpoints[0].lb_endpoints: must have exactly one endpoint".to_owned(),
        ),
        (
            "load_assignment { endpoints { lb_endpoints {} } }".to_owned(),
            format!("{address}: must be set"),
        ),
        (
            socket("port_value: 1"),
            format!("{address}.address: must not be empty"),
        ),
        (
            socket("address: 'h'"),
            format!("{address}.port_value: must be set"),
        ),
        (
            socket("address: 'h' port_value: 65536"),
            format!("{address}.port_value: must be below 65536"),
        ),
        (
            socket("address: 'h' port_value: 1 resolver_name: 'r'"),
            format!("{address}.resolver_name: must be empty"),
        ),
    ] {
        let error = rejected::<Cluster>(&dns(&assignment));
        assert_eq!(error, format!("c: load_assignment{rule}"));
    }
}

#[test]
fn c198_other_cluster_types_are_rejected_by_name() {
    for (text, error) in [
        ("type: STRICT_DNS", "type: STRICT_DNS"),
        ("type: STATIC", "type: STATIC"),
        ("", "type: STATIC"),
    ] {
        assert_eq!(
            rejected::<Cluster>(&format!("name: 'c' {text}")),
            format!("c: {error} is not supported, only EDS, LOGICAL_DNS and aggregates are")
        );
    }
}

/// A cluster of a custom type with this configuration.
fn custom(message: &str, config: &str) -> String {
    format!(
        "name: 'c' cluster_type {{ name: 'any' typed_config {{ [type.googleapis.com/{message}] {{ {config} }} }} }}"
    )
}

#[test]
fn c198_aggregate_lists_its_clusters_in_order() {
    let cluster: Cluster = accepted(&custom(AGGREGATE, "clusters: 'near' clusters: 'far'"));
    let clusters = vec!["near".into(), "far".into()];
    assert_eq!(cluster.discovery, Discovery::Aggregate(clusters));
    assert_eq!(&*cluster.eds_service_name, "");
}

#[test]
fn c198_lb_policy_of_an_aggregate_is_ignored() {
    let base = custom(AGGREGATE, "clusters: 'near'");
    for policy in [
        "lb_policy: CLUSTER_PROVIDED",
        "lb_policy: MAGLEV",
        &chosen(&[&policy(MAGLEV, "")]),
    ] {
        accepted::<Cluster>(&format!("{base} {policy}"));
    }
}

#[test]
fn c198_aggregate_is_validated() {
    let error = |text: &str| rejected::<Cluster>(text);
    assert_eq!(
        error("name: 'c' cluster_type { name: 'x' }"),
        "c: cluster_type.typed_config: must be set"
    );
    assert_eq!(
        error(&custom(ROUND_ROBIN, "")),
        format!(
            "c: cluster_type.typed_config: {ROUND_ROBIN:?} is not supported, only {AGGREGATE:?} is"
        )
    );
    let clusters = "c: cluster_type.typed_config.clusters";
    assert_eq!(
        error(&custom(AGGREGATE, "")),
        format!("{clusters}: must not be empty")
    );
    assert_eq!(
        error(&custom(AGGREGATE, "clusters: 'near' clusters: ''")),
        format!("{clusters}[1]: must not be empty")
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

#[test]
fn c253_override_statuses_default_to_unknown_and_healthy() {
    use EndpointHealth::{Draining, Healthy, Unknown};
    let all = [Unknown, Healthy, Draining];
    let statuses = |fields: &str| -> Vec<_> {
        let set = with(fields).override_statuses;
        all.into_iter().filter(|one| set.contains(*one)).collect()
    };
    assert_eq!(statuses(""), [Unknown, Healthy]);
    assert_eq!(statuses("common_lb_config {}"), [Unknown, Healthy]);
    let of = |names: &str| {
        statuses(&format!(
            "common_lb_config {{ override_host_status {{ {names} }} }}"
        ))
    };
    assert_eq!(of(""), []);
    assert_eq!(
        of("statuses: HEALTHY statuses: DRAINING"),
        [Healthy, Draining]
    );
    // gRPC never uses endpoints of the other statuses (gRFC A55).
    assert_eq!(
        of("statuses: UNHEALTHY statuses: TIMEOUT statuses: DEGRADED"),
        []
    );
}

#[test]
fn c206_idle_timeout_is_read() {
    const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let upstream = |message: &str, fields: &str| {
        format!(
            "upstream_config {{ name: 'u' typed_config {{ [type.googleapis.com/{message}] {{ {fields} }} }} }}"
        )
    };
    let options = |fields: &str| {
        upstream(
            OPTIONS,
            &format!("common_http_protocol_options {{ {fields} }}"),
        )
    };
    let hour = Duration::from_secs(3600);
    assert_eq!(with("").idle_timeout, hour);
    assert_eq!(with(&upstream(OPTIONS, "")).idle_timeout, hour);
    assert_eq!(with(&options("")).idle_timeout, hour);
    let minute = with(&options("idle_timeout { seconds: 60 }"));
    assert_eq!(minute.idle_timeout, Duration::from_secs(60));
    let within = "upstream_config.typed_config";
    assert_eq!(
        fault(&options("idle_timeout { seconds: -1 }")),
        format!(
            "{within}.common_http_protocol_options.idle_timeout: must be a duration that is not negative"
        )
    );
    assert_eq!(
        fault(&upstream(ROUND_ROBIN, "")),
        format!("{within}: {ROUND_ROBIN:?} is not supported: expected {OPTIONS}")
    );
    assert_eq!(
        fault("upstream_config { name: 'u' }"),
        format!("{within}: must be set")
    );
}
