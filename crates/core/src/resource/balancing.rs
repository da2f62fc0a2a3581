//! Load-balancing policy of a cluster: `load_balancing_policy`, or else `lb_policy` (gRFC A52).

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster as ClusterProto, LoadBalancingPolicy, cluster::LbPolicy,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::wrr_locality::v3::WrrLocality;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::Invalid;
use super::convert::message;
use super::invalid::Within;
use crate::lb::policy::PolicyConfig;

/// Nesting depth that gRFC A52 allows.
const MAX_DEPTH: u32 = 16;

const ROUND_ROBIN: &str = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";
const WRR_LOCALITY: &str = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality";

/// Reads the policy of a cluster. `load_balancing_policy`, if set, overrides `lb_policy` (C-199).
pub(super) fn policy(proto: &ClusterProto) -> Result<PolicyConfig, Invalid> {
    if let Some(policies) = &proto.load_balancing_policy {
        return required(policies, 0).within("load_balancing_policy");
    }
    let rule = match LbPolicy::try_from(proto.lb_policy) {
        Ok(LbPolicy::RoundRobin) => return Ok(PolicyConfig::round_robin_by_locality()),
        Ok(other) => format!(
            "{} is not supported, only ROUND_ROBIN is",
            other.as_str_name()
        ),
        Err(_) => "is unknown".to_owned(),
    };
    Err(Invalid::new(rule).at("lb_policy"))
}

/// Reads the first supported policy of a list, which must have one (C-200).
fn required(policies: &LoadBalancingPolicy, depth: u32) -> Result<PolicyConfig, Invalid> {
    first_supported(policies, depth)?.ok_or_else(|| {
        Invalid::new("must have a supported policy: round_robin, alone or in wrr_locality")
    })
}

/// Reads the first supported policy of a list. Unknown policies are skipped (gRFC A52).
fn first_supported(
    policies: &LoadBalancingPolicy,
    depth: u32,
) -> Result<Option<PolicyConfig>, Invalid> {
    if depth > MAX_DEPTH {
        let rule = format!("must be nested at most {MAX_DEPTH} deep");
        return Err(Invalid::new(rule));
    }
    for policy in &policies.policies {
        let config = policy.typed_extension_config.as_ref();
        let Some(any) = config.and_then(|config| config.typed_config.as_ref()) else {
            continue;
        };
        if let Some(policy) = supported(any, depth)? {
            return Ok(Some(policy));
        }
    }
    Ok(None)
}

/// Reads one policy; `None` if it is not supported.
fn supported(any: &Any, depth: u32) -> Result<Option<PolicyConfig>, Invalid> {
    match message(any) {
        ROUND_ROBIN => Ok(Some(PolicyConfig::RoundRobin)),
        WRR_LOCALITY => {
            let proto = WrrLocality::decode(&*any.value)?;
            let Some(inner) = &proto.endpoint_picking_policy else {
                return Err(Invalid::new("must be set").at("endpoint_picking_policy"));
            };
            let inner = first_supported(inner, depth + 1)?;
            Ok(inner.map(|inner| PolicyConfig::WrrLocality(Arc::new(inner))))
        }
        _ => Ok(None),
    }
}
