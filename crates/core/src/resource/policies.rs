//! Policies of routes: retries and hashing.

use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::route_action::{
    HashPolicy as HashProto, hash_policy::Header as HashHeader, hash_policy::PolicySpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy as RetryProto, retry_policy::RetryBackOff,
};

use super::Invalid;
use super::convert::{compile, duration};
use super::invalid::Within;
use crate::lb::{HashPolicy, HashSource, MAX_ATTEMPTS, RetryPolicy, Rewrite, StatusCodes};

/// Back-off before the first retry, if the policy has none: Envoy's default (gRFC A44).
const DEFAULT_BASE: Duration = Duration::from_millis(25);

/// Minimum of the back-off, as in Envoy and C-core.
const MIN_BASE: Duration = Duration::from_millis(1);

/// Maximum back-off in units of the base, if the policy has none (gRFC A44).
const DEFAULT_MAX_FACTOR: u32 = 10;

/// Filter state of gRPC channels (gRFC A42).
const CHANNEL_ID: &str = "io.grpc.channel_id";

/// Reads a retry policy. Returns `None` if it has no status code that gRPC retries (gRFC A44).
pub(super) fn retry_policy(proto: &RetryProto) -> Result<Option<RetryPolicy>, Invalid> {
    let retries = proto.num_retries.map_or(1, |retries| retries.value);
    if retries == 0 {
        return Err(Invalid::new("must not be zero").at("num_retries"));
    }
    let (base, max) = match &proto.retry_back_off {
        Some(back_off) => retry_back_off(back_off).within("retry_back_off")?,
        None => (DEFAULT_BASE, None),
    };
    let max = max.unwrap_or(base.saturating_mul(DEFAULT_MAX_FACTOR));
    let codes = retry_on(&proto.retry_on);
    Ok((!codes.is_empty()).then(|| RetryPolicy {
        codes,
        // gRFC A6: more than five attempts are as good as five.
        max_attempts: retries.saturating_add(1).min(MAX_ATTEMPTS),
        base: base.max(MIN_BASE),
        max: max.max(MIN_BASE),
    }))
}

/// Returns the base, and the maximum if it is set.
fn retry_back_off(proto: &RetryBackOff) -> Result<(Duration, Option<Duration>), Invalid> {
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
        max => Ok((base, max)),
    }
}

/// Reads the conditions of `x-envoy-retry-grpc-on`. Others are ignored (gRFC A44).
fn retry_on(list: &str) -> StatusCodes {
    let mut codes = StatusCodes::default();
    for condition in list.split(',') {
        match condition.trim() {
            "cancelled" => codes.insert(1),
            "deadline-exceeded" => codes.insert(4),
            "resource-exhausted" => codes.insert(8),
            "internal" => codes.insert(13),
            "unavailable" => codes.insert(14),
            _ => {}
        }
    }
    codes
}

/// Reads the hash policies of a route. Those that gRPC does not support have no result, and are left out (gRFC A42).
pub(super) fn hash_policies(protos: &[HashProto]) -> Result<Vec<HashPolicy>, Invalid> {
    let mut policies = Vec::new();
    for (index, proto) in protos.iter().enumerate() {
        let source = match &proto.policy_specifier {
            Some(PolicySpecifier::Header(header)) => Some(
                hash_header(header)
                    .within("header")
                    .within_index("hash_policy", index)?,
            ),
            Some(PolicySpecifier::FilterState(state)) if state.key == CHANNEL_ID => {
                Some(HashSource::ChannelId)
            }
            _ => None,
        };
        policies.extend(source.map(|source| HashPolicy {
            source,
            terminal: proto.terminal,
        }));
    }
    Ok(policies)
}

fn hash_header(header: &HashHeader) -> Result<HashSource, Invalid> {
    if header.header_name.is_empty() {
        return Err(Invalid::new("must not be empty").at("header_name"));
    }
    let rewrite = match &header.regex_rewrite {
        None => None,
        Some(rewrite) => {
            let pattern = rewrite.pattern.as_ref();
            let pattern = pattern.ok_or_else(|| Invalid::new("must be set"));
            let pattern = pattern
                .and_then(|pattern| compile(&pattern.regex))
                .within("regex_rewrite.pattern")?;
            // As in gRPC, a substitution that RE2 cannot apply leaves the value as it is.
            Rewrite::new(pattern, &rewrite.substitution)
        }
    };
    Ok(HashSource::Header {
        name: header.header_name.to_ascii_lowercase().into(),
        rewrite,
    })
}
