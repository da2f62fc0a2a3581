//! C-199 and C-200: the load balancing policy of a cluster.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};

use super::cluster::{fault, with};

const PACKAGE: &str = "envoy.extensions.load_balancing_policies";
const MAGLEV: &str = "envoy.extensions.load_balancing_policies.maglev.v3.Maglev";
const ROUND_ROBIN: &str = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";
const RING_HASH: &str = "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash";
const WRR_LOCALITY: &str = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality";

fn ring(min_ring_size: u64, max_ring_size: u64) -> PolicyConfig {
    PolicyConfig::RingHash {
        min_ring_size,
        max_ring_size,
    }
}

fn weighted(config: WeightedRoundRobinConfig) -> PolicyConfig {
    PolicyConfig::WeightedRoundRobin(Arc::new(config))
}

pub(super) fn policy(message: &str, fields: &str) -> String {
    format!(
        "policies {{ typed_extension_config {{ name: 'p' typed_config {{
           [type.googleapis.com/{message}] {{ {fields} }} }} }} }}"
    )
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

pub(super) fn chosen(policies: &[&str]) -> String {
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
