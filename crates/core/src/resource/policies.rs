//! Rules for the policies of routes: retries and hashing. The channel implements neither, but a resource with an invalid one
//! is invalid for every gRPC client.

use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::route_action::{
    HashPolicy, hash_policy::PolicySpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{RetryPolicy, retry_policy::RetryBackOff};

use super::Invalid;
use super::convert::{compile, duration};
use super::invalid::Within;

/// Checks a retry policy (gRFC A44).
pub(super) fn retry_policy(proto: &RetryPolicy) -> Result<(), Invalid> {
    if proto.num_retries.is_some_and(|retries| retries.value == 0) {
        return Err(Invalid::new("must not be zero").at("num_retries"));
    }
    match &proto.retry_back_off {
        Some(back_off) => retry_back_off(back_off).within("retry_back_off"),
        None => Ok(()),
    }
}

fn retry_back_off(proto: &RetryBackOff) -> Result<(), Invalid> {
    let base = proto.base_interval.as_ref();
    let base = base.ok_or_else(|| Invalid::new("must be set"));
    let base = base.and_then(duration).within("base_interval")?;
    if base == Duration::ZERO {
        return Err(Invalid::new("must be above zero").at("base_interval"));
    }
    let max = proto.max_interval.as_ref().map(duration).transpose();
    match max.within("max_interval")? {
        Some(max) if max < base => {
            Err(Invalid::new("must not be below base_interval").at("max_interval"))
        }
        _ => Ok(()),
    }
}

/// Checks the hash policies of a route (gRFC A42).
pub(super) fn hash_policies(protos: &[HashPolicy]) -> Result<(), Invalid> {
    for (index, proto) in protos.iter().enumerate() {
        let Some(PolicySpecifier::Header(header)) = &proto.policy_specifier else {
            continue;
        };
        let Some(rewrite) = &header.regex_rewrite else {
            continue;
        };
        let pattern = rewrite.pattern.as_ref();
        let pattern = pattern.ok_or_else(|| Invalid::new("must be set"));
        pattern
            .and_then(|pattern| compile(&pattern.regex))
            .within("header.regex_rewrite.pattern")
            .within_index("hash_policy", index)?;
    }
    Ok(())
}
