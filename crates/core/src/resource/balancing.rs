//! Load-balancing policy of a cluster: `load_balancing_policy`, or else `lb_policy` (gRFC A52).

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster as ClusterProto, LoadBalancingPolicy,
    cluster::{LbConfig, LbPolicy, LeastRequestLbConfig, RingHashLbConfig, ring_hash_lb_config},
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::{
    client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
    least_request::v3::LeastRequest,
    pick_first::v3::PickFirst,
    random_subsetting::v3::RandomSubsetting,
    ring_hash::v3::{RingHash, ring_hash},
    wrr_locality::v3::WrrLocality,
};
use envoy_types::pb::google::protobuf;
use prost::Message;

use super::Invalid;
use super::convert::{duration, message};
use super::extension::{ExtensionConfig, Extensions};
use super::invalid::Within;
use crate::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};

/// Nesting depth that gRFC A52 allows.
const MAX_DEPTH: u32 = 16;

/// Largest ring that is valid (gRFC A42). Larger rings than 4096 entries are made with 4096.
const MAX_RING_SIZE: u64 = 8_388_608;

/// Minimum size of a ring by default (gRFC A42).
const DEFAULT_MIN_RING_SIZE: u64 = 1024;

/// Number of endpoints that `least_request` compares by default (gRFC A48).
const DEFAULT_CHOICE_COUNT: u32 = 2;

/// Shortest time between two computations of weights (gRFC A58).
const MIN_WEIGHT_UPDATE_PERIOD: Duration = Duration::from_millis(100);

/// Policies that are supported, for errors.
const SUPPORTED: &str = "must have a supported policy: round_robin, pick_first, ring_hash, least_request or \
                         client_side_weighted_round_robin, alone or in wrr_locality or random_subsetting";

/// Package prefix of all policies.
const PACKAGE: &str = "envoy.extensions.load_balancing_policies.";

/// Reads the policy of a cluster. `load_balancing_policy`, if set, overrides `lb_policy` (C-199).
pub(super) fn policy(
    proto: &ClusterProto,
    extensions: &Extensions,
) -> Result<PolicyConfig, Invalid> {
    if let Some(policies) = &proto.load_balancing_policy {
        return required(policies, 0, extensions).within("load_balancing_policy");
    }
    let rule = match (LbPolicy::try_from(proto.lb_policy), &proto.lb_config) {
        (Ok(LbPolicy::RoundRobin), _) => return Ok(PolicyConfig::round_robin_by_locality()),
        (Ok(LbPolicy::RingHash), Some(LbConfig::RingHashLbConfig(config))) => {
            return ring_hash_of_enum(config).within("ring_hash_lb_config");
        }
        (Ok(LbPolicy::RingHash), _) => return ring_hash_of_sizes(None, None),
        (Ok(LbPolicy::LeastRequest), Some(LbConfig::LeastRequestLbConfig(config))) => {
            return least_request_of_enum(config).within("least_request_lb_config");
        }
        (Ok(LbPolicy::LeastRequest), _) => {
            return least_request_of_enum(&LeastRequestLbConfig::default());
        }
        (Ok(other), _) => format!(
            "{} is not supported, only ROUND_ROBIN, RING_HASH and LEAST_REQUEST are",
            other.as_str_name()
        ),
        (Err(_), _) => "is unknown".to_owned(),
    };
    Err(Invalid::new(rule).at("lb_policy"))
}

/// Reads the configuration of `lb_policy: RING_HASH` (gRFC A42).
fn ring_hash_of_enum(config: &RingHashLbConfig) -> Result<PolicyConfig, Invalid> {
    if config.hash_function != ring_hash_lb_config::HashFunction::XxHash as i32 {
        return Err(Invalid::new("must be XX_HASH").at("hash_function"));
    }
    ring_hash_of_sizes(config.minimum_ring_size, config.maximum_ring_size)
}

/// Reads the configuration of `lb_policy: LEAST_REQUEST` (gRFC A48). It balances in each locality (gRFC A52).
fn least_request_of_enum(config: &LeastRequestLbConfig) -> Result<PolicyConfig, Invalid> {
    let inner = least_request(config.choice_count)?;
    Ok(PolicyConfig::WrrLocality(Arc::new(inner)))
}

fn ring_hash_of_sizes(
    minimum: Option<protobuf::UInt64Value>,
    maximum: Option<protobuf::UInt64Value>,
) -> Result<PolicyConfig, Invalid> {
    let size = |value: Option<protobuf::UInt64Value>, default| {
        let size = value.map_or(default, |value| value.value);
        if (1..=MAX_RING_SIZE).contains(&size) {
            return Ok(size);
        }
        Err(Invalid::new(format!(
            "must be between 1 and {MAX_RING_SIZE}"
        )))
    };
    let max_ring_size = size(maximum, MAX_RING_SIZE).within("maximum_ring_size")?;
    let min_ring_size =
        size(minimum, DEFAULT_MIN_RING_SIZE.min(max_ring_size)).within("minimum_ring_size")?;
    if min_ring_size > max_ring_size {
        let invalid = Invalid::new("must not be above maximum_ring_size");
        return Err(invalid.at("minimum_ring_size"));
    }
    Ok(PolicyConfig::RingHash {
        min_ring_size,
        max_ring_size,
    })
}

fn least_request(choice_count: Option<protobuf::UInt32Value>) -> Result<PolicyConfig, Invalid> {
    let choice_count = choice_count.map_or(DEFAULT_CHOICE_COUNT, |count| count.value);
    if choice_count < 2 {
        return Err(Invalid::new("must be at least 2").at("choice_count"));
    }
    Ok(PolicyConfig::LeastRequest { choice_count })
}

/// Reads the first supported policy of a list, which must have one (C-200).
fn required(
    policies: &LoadBalancingPolicy,
    depth: u32,
    extensions: &Extensions,
) -> Result<PolicyConfig, Invalid> {
    first_supported(policies, depth, extensions)?.ok_or_else(|| Invalid::new(SUPPORTED))
}

/// Reads the first supported policy of a list. Unknown policies are skipped (gRFC A52).
fn first_supported(
    policies: &LoadBalancingPolicy,
    depth: u32,
    extensions: &Extensions,
) -> Result<Option<PolicyConfig>, Invalid> {
    if depth > MAX_DEPTH {
        let rule = format!("must be nested at most {MAX_DEPTH} deep");
        return Err(Invalid::new(rule));
    }
    for (index, policy) in policies.policies.iter().enumerate() {
        let config = policy.typed_extension_config.as_ref();
        let Some(any) = config.and_then(|config| config.typed_config.as_ref()) else {
            continue;
        };
        let read = supported(any, depth, extensions)
            .within("typed_extension_config.typed_config")
            .within_index("policies", index)?;
        if let Some(policy) = read {
            return Ok(Some(policy));
        }
    }
    Ok(None)
}

/// Reads one policy; `None` if it is not supported.
fn supported(
    any: &protobuf::Any,
    depth: u32,
    extensions: &Extensions,
) -> Result<Option<PolicyConfig>, Invalid> {
    let value = &*any.value;
    let Some(name) = message(any).strip_prefix(PACKAGE) else {
        let config = ExtensionConfig::from_any(any)?;
        let custom = extensions.policy(&config).transpose().within("value")?;
        return Ok(custom.map(PolicyConfig::Custom));
    };
    let policy = match name {
        "round_robin.v3.RoundRobin" => PolicyConfig::RoundRobin,
        "pick_first.v3.PickFirst" => PolicyConfig::PickFirst {
            shuffle: PickFirst::decode(value)?.shuffle_address_list,
        },
        "ring_hash.v3.RingHash" => ring_hash_of_message(&RingHash::decode(value)?)?,
        "least_request.v3.LeastRequest" => {
            least_request(LeastRequest::decode(value)?.choice_count)?
        }
        "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin" => {
            let proto = ClientSideWeightedRoundRobin::decode(value)?;
            PolicyConfig::WeightedRoundRobin(Arc::new(weighted_round_robin(&proto)?))
        }
        "wrr_locality.v3.WrrLocality" => {
            let proto = WrrLocality::decode(value)?;
            return inner(proto.endpoint_picking_policy.as_ref(), depth, extensions)
                .within("endpoint_picking_policy")
                .map(|inner| Some(PolicyConfig::WrrLocality(Arc::new(inner?))));
        }
        "random_subsetting.v3.RandomSubsetting" => {
            let proto = RandomSubsetting::decode(value)?;
            let subset_size = proto.subset_size.map_or(0, |size| size.value);
            if subset_size == 0 {
                return Err(Invalid::new("must be above zero").at("subset_size"));
            }
            let inner =
                inner(proto.child_policy.as_ref(), depth, extensions).within("child_policy")?;
            return Ok(inner.map(|inner| PolicyConfig::RandomSubsetting {
                subset_size,
                inner: Arc::new(inner),
            }));
        }
        _ => return Ok(None),
    };
    Ok(Some(policy))
}

/// Reads the inner policy of another one; `None` if no policy of its list is supported.
fn inner(
    policies: Option<&LoadBalancingPolicy>,
    depth: u32,
    extensions: &Extensions,
) -> Result<Option<PolicyConfig>, Invalid> {
    let policies = policies.ok_or_else(|| Invalid::new("must be set"))?;
    first_supported(policies, depth + 1, extensions)
}

fn ring_hash_of_message(proto: &RingHash) -> Result<PolicyConfig, Invalid> {
    use ring_hash::HashFunction::{DefaultHash, XxHash};
    // gRFC A42: the default is XX_HASH.
    if ![DefaultHash as i32, XxHash as i32].contains(&proto.hash_function) {
        return Err(Invalid::new("must be XX_HASH").at("hash_function"));
    }
    ring_hash_of_sizes(proto.minimum_ring_size, proto.maximum_ring_size)
}

/// Time between reports out of band (gRFC A58).
const DEFAULT_REPORTING_PERIOD: Duration = Duration::from_secs(10);

/// Reads weighted round robin (gRFC A58).
fn weighted_round_robin(
    proto: &ClientSideWeightedRoundRobin,
) -> Result<WeightedRoundRobinConfig, Invalid> {
    let default = WeightedRoundRobinConfig::default();
    let period = |field, value: &Option<protobuf::Duration>, default| {
        let value = value.as_ref().map(duration).transpose();
        Ok::<_, Invalid>(value.within(field)?.unwrap_or(default))
    };
    // The period is checked also if the reports of RPCs are used.
    let reporting_period = period(
        "oob_reporting_period",
        &proto.oob_reporting_period,
        DEFAULT_REPORTING_PERIOD,
    )?;
    let enabled = proto.enable_oob_load_report.as_ref();
    let out_of_band = enabled.is_some_and(|enabled| enabled.value);
    let penalty = proto.error_utilization_penalty.map(|value| value.value);
    let error_utilization_penalty = penalty.unwrap_or(default.error_utilization_penalty);
    if !error_utilization_penalty.is_finite() || error_utilization_penalty < 0.0 {
        let invalid = Invalid::new("must be a number that is not negative");
        return Err(invalid.at("error_utilization_penalty"));
    }
    let names = proto.metric_names_for_computing_utilization.iter();
    let update_period = period(
        "weight_update_period",
        &proto.weight_update_period,
        default.weight_update_period,
    )?;
    Ok(WeightedRoundRobinConfig {
        blackout_period: period(
            "blackout_period",
            &proto.blackout_period,
            default.blackout_period,
        )?,
        weight_expiration_period: period(
            "weight_expiration_period",
            &proto.weight_expiration_period,
            default.weight_expiration_period,
        )?,
        // gRFC A58: a shorter period counts as the shortest one.
        weight_update_period: update_period.max(MIN_WEIGHT_UPDATE_PERIOD),
        error_utilization_penalty,
        metric_names: names.map(|name| name.as_str().into()).collect(),
        out_of_band: out_of_band.then_some(reporting_period),
    })
}
