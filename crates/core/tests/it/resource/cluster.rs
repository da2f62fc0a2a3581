//! C-131, C-196 – C-202: validation of clusters.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};
use oxds_core::lb::{EndpointHealth, FailurePercentage, OutlierConfig, SuccessRate};
use oxds_core::resource::MetricSelection;
use oxds_core::resource::{Cluster, Discovery, DnsTarget, LrsServer};

use crate::support::text::{accepted, rejected};

const EDS: &str = "type: EDS eds_cluster_config { eds_config { ads {} } }";
const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
const PACKAGE: &str = "envoy.extensions.load_balancing_policies";
const MAGLEV: &str = "envoy.extensions.load_balancing_policies.maglev.v3.Maglev";
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

fn ring(min_ring_size: u64, max_ring_size: u64) -> PolicyConfig {
    PolicyConfig::RingHash {
        min_ring_size,
        max_ring_size,
    }
}

fn weighted(config: WeightedRoundRobinConfig) -> PolicyConfig {
    PolicyConfig::WeightedRoundRobin(Arc::new(config))
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
fn c199_lb_policy_is_one_of_three() {
    let of_localities = |inner| PolicyConfig::WrrLocality(Arc::new(inner));
    for (fields, expected) in [
        ("", of_localities(PolicyConfig::RoundRobin)),
        (
            "lb_policy: ROUND_ROBIN",
            of_localities(PolicyConfig::RoundRobin),
        ),
        ("lb_policy: RING_HASH", ring(1024, 8_388_608)),
        (
            "lb_policy: RING_HASH ring_hash_lb_config { minimum_ring_size { value: 7 } maximum_ring_size { value: 9 } }",
            ring(7, 9),
        ),
        (
            "lb_policy: LEAST_REQUEST",
            of_localities(PolicyConfig::LeastRequest { choice_count: 2 }),
        ),
        (
            "lb_policy: LEAST_REQUEST least_request_lb_config { choice_count { value: 5 } }",
            of_localities(PolicyConfig::LeastRequest { choice_count: 5 }),
        ),
    ] {
        assert_eq!(with(fields).policy, expected, "{fields}");
    }
    for other in ["RANDOM", "MAGLEV"] {
        assert_eq!(
            fault(&format!("lb_policy: {other}")),
            format!(
                "lb_policy: {other} is not supported, only ROUND_ROBIN, RING_HASH and LEAST_REQUEST are"
            )
        );
    }
    assert_eq!(fault("lb_policy: 99"), "lb_policy: is unknown");
}

#[test]
fn c199_values_of_lb_policy_are_validated() {
    for (fields, error) in [
        (
            "lb_policy: RING_HASH ring_hash_lb_config { hash_function: MURMUR_HASH_2 }",
            "ring_hash_lb_config.hash_function: must be XX_HASH",
        ),
        (
            "lb_policy: RING_HASH ring_hash_lb_config { minimum_ring_size { value: 10 } maximum_ring_size { value: 9 } }",
            "ring_hash_lb_config.minimum_ring_size: must not be above maximum_ring_size",
        ),
        (
            "lb_policy: RING_HASH ring_hash_lb_config { maximum_ring_size { value: 8388609 } }",
            "ring_hash_lb_config.maximum_ring_size: must be between 1 and 8388608",
        ),
        (
            "lb_policy: RING_HASH ring_hash_lb_config { minimum_ring_size { value: 0 } }",
            "ring_hash_lb_config.minimum_ring_size: must be between 1 and 8388608",
        ),
        (
            "lb_policy: LEAST_REQUEST least_request_lb_config { choice_count { value: 1 } }",
            "least_request_lb_config.choice_count: must be at least 2",
        ),
    ] {
        assert_eq!(fault(fields), error);
    }
    // gRFC A42: what is valid for another policy is not read.
    with("lb_policy: ROUND_ROBIN ring_hash_lb_config { hash_function: MURMUR_HASH_2 }");
}

#[test]
fn c199_load_balancing_policy_overrides_lb_policy() {
    let round_robin = policy(ROUND_ROBIN, "");
    with(&format!(
        "lb_policy: MAGLEV load_balancing_policy {{ {round_robin} }}"
    ));
}

fn chosen(policies: &[&str]) -> String {
    format!("load_balancing_policy {{ {} }}", policies.join(" "))
}

#[test]
fn c200_first_supported_policy_counts() {
    let unknown = policy(MAGLEV, "");
    let round_robin = policy(ROUND_ROBIN, "");
    let ring_hash = policy(RING_HASH, "");
    let read = with(&chosen(&[&unknown, &round_robin, &ring_hash])).policy;
    assert_eq!(read, PolicyConfig::RoundRobin);
    let none = "load_balancing_policy: must have a supported policy: round_robin, pick_first, ring_hash, \
                least_request or client_side_weighted_round_robin, alone or in wrr_locality or random_subsetting";
    assert_eq!(fault(&chosen(&[&unknown])), none);
    assert_eq!(fault(&chosen(&[])), none);

    let of_localities = |inner: &str| {
        policy(
            WRR_LOCALITY,
            &format!("endpoint_picking_policy {{ {inner} }}"),
        )
    };
    let read = with(&chosen(&[&of_localities(&round_robin)])).policy;
    assert_eq!(read, PolicyConfig::round_robin_by_locality());
    assert_eq!(fault(&chosen(&[&of_localities(&unknown)])), none);
    let read = with(&chosen(&[&of_localities(&unknown), &round_robin])).policy;
    assert_eq!(read, PolicyConfig::RoundRobin);
    assert_eq!(
        fault(&chosen(&[&unknown, &policy(WRR_LOCALITY, "")])),
        format!("{}.endpoint_picking_policy: must be set", typed(1))
    );
}

/// The path of a policy's configuration.
fn typed(index: usize) -> String {
    format!("load_balancing_policy.policies[{index}].typed_extension_config.typed_config")
}

#[test]
fn c200_each_policy_is_read_with_its_fields() {
    for (message, fields, expected) in [
        (
            "pick_first.v3.PickFirst",
            "shuffle_address_list: true",
            PolicyConfig::PickFirst { shuffle: true },
        ),
        ("ring_hash.v3.RingHash", "", ring(1024, 8_388_608)),
        (
            "ring_hash.v3.RingHash",
            "hash_function: XX_HASH maximum_ring_size { value: 100 }",
            ring(100, 100),
        ),
        (
            "least_request.v3.LeastRequest",
            "choice_count { value: 3 }",
            PolicyConfig::LeastRequest { choice_count: 3 },
        ),
        (
            "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "",
            weighted(WeightedRoundRobinConfig::default()),
        ),
        (
            "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "blackout_period { seconds: 1 } weight_expiration_period { seconds: 2 }
             weight_update_period { nanos: 1000 } error_utilization_penalty { value: 0.5 }
             metric_names_for_computing_utilization: 'named_metrics.x'",
            weighted(WeightedRoundRobinConfig {
                blackout_period: Duration::from_secs(1),
                weight_expiration_period: Duration::from_secs(2),
                weight_update_period: Duration::from_millis(100),
                error_utilization_penalty: 0.5,
                metric_names: vec!["named_metrics.x".into()],
                out_of_band: None,
            }),
        ),
        (
            "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "enable_oob_load_report { value: true }",
            weighted(WeightedRoundRobinConfig {
                out_of_band: Some(Duration::from_secs(10)),
                ..WeightedRoundRobinConfig::default()
            }),
        ),
        (
            "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "enable_oob_load_report { value: true } oob_reporting_period { seconds: 2 }",
            weighted(WeightedRoundRobinConfig {
                out_of_band: Some(Duration::from_secs(2)),
                ..WeightedRoundRobinConfig::default()
            }),
        ),
        (
            "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "oob_reporting_period { seconds: 2 }",
            weighted(WeightedRoundRobinConfig::default()),
        ),
        (
            "random_subsetting.v3.RandomSubsetting",
            &format!(
                "subset_size {{ value: 4 }} child_policy {{ {} }}",
                policy(ROUND_ROBIN, "")
            ),
            PolicyConfig::RandomSubsetting {
                subset_size: 4,
                inner: Arc::new(PolicyConfig::RoundRobin),
            },
        ),
    ] {
        let policy = policy(&format!("{PACKAGE}.{message}"), fields);
        assert_eq!(
            with(&chosen(&[&policy])).policy,
            expected,
            "{message} {fields}"
        );
    }
}

#[test]
fn c200_values_of_policies_are_validated() {
    let wrr = "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin";
    for (message, fields, error) in [
        (
            "ring_hash.v3.RingHash",
            "hash_function: MURMUR_HASH_2",
            "hash_function: must be XX_HASH",
        ),
        (
            "ring_hash.v3.RingHash",
            "minimum_ring_size { value: 5 } maximum_ring_size { value: 4 }",
            "minimum_ring_size: must not be above maximum_ring_size",
        ),
        (
            "least_request.v3.LeastRequest",
            "choice_count { value: 1 }",
            "choice_count: must be at least 2",
        ),
        (
            wrr,
            "error_utilization_penalty { value: -1 }",
            "error_utilization_penalty: must be a number that is not negative",
        ),
        (
            wrr,
            "error_utilization_penalty { value: nan }",
            "error_utilization_penalty: must be a number that is not negative",
        ),
        (
            wrr,
            "blackout_period { seconds: -1 }",
            "blackout_period: must be a duration that is not negative",
        ),
        (
            "random_subsetting.v3.RandomSubsetting",
            "",
            "subset_size: must be above zero",
        ),
        (
            "random_subsetting.v3.RandomSubsetting",
            "subset_size { value: 1 }",
            "child_policy: must be set",
        ),
    ] {
        let policy = policy(&format!("{PACKAGE}.{message}"), fields);
        assert_eq!(fault(&chosen(&[&policy])), format!("{}.{error}", typed(0)));
    }
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
    with(&chosen(&[&nested(16)]));
    let error = fault(&chosen(&[&nested(17)]));
    assert!(
        error.ends_with("endpoint_picking_policy: must be nested at most 16 deep"),
        "{error}"
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
