//! Policies and filters in force, as texts.

use std::time::Duration;

use envoy_types::pb::google::rpc::Code;

use crate::lb::{HashPolicy, HashSource, RetryPolicy, visible};
use crate::resolve::CompiledAction;
use crate::resource::FilterConfig;

use crate::explain::request::Request;

/// Returns the policies of a route.
pub(super) fn of(action: &CompiledAction, request: &Request) -> Vec<String> {
    let CompiledAction::Forward {
        limit,
        retry,
        hash,
        rewrites_host,
        ..
    } = action
    else {
        return Vec::new();
    };
    let mut policies = vec![timeout(*limit)];
    policies.extend(retry.as_ref().map(|policy| retries(policy)));
    policies.extend(hash.iter().map(|policy| hashing(policy, request)));
    if *rewrites_host {
        policies.push("authority: the hostname of the endpoint, if it has one".to_owned());
    }
    policies
}

fn timeout(limit: Option<Duration>) -> String {
    match limit {
        Some(limit) => format!("timeout: {limit:?}"),
        None => "timeout: none".to_owned(),
    }
}

fn retries(policy: &RetryPolicy) -> String {
    let codes = (0..=16_i32).filter(|code| policy.codes.contains(code.unsigned_abs()));
    let names = codes.filter_map(|code| Some(Code::try_from(code).ok()?.as_str_name()));
    let (names, attempts) = (names.collect::<Vec<_>>().join(", "), policy.max_attempts);
    let (base, max) = (policy.base, policy.max);
    format!("retry: on {names}, at most {attempts} attempts, back-off {base:?} to {max:?}")
}

fn hashing(policy: &HashPolicy, request: &Request) -> String {
    let last = if policy.terminal { ", terminal" } else { "" };
    match &policy.source {
        HashSource::ChannelId => format!("hash: the channel{last}"),
        HashSource::Header { name, .. } => match visible(name, request) {
            Some(value) => format!("hash: header {name:?}, here {value:?}{last}"),
            None => format!("hash: header {name:?}, here absent{last}"),
        },
    }
}

/// Returns a filter with what it does.
pub(super) fn filter(filter: &FilterConfig) -> String {
    match filter {
        FilterConfig::Fault(fault) => {
            let delay = fault.delay.as_ref().map(|_| " delay");
            let abort = fault.abort.as_ref().map(|_| " abort");
            let (delay, abort) = (delay.unwrap_or_default(), abort.unwrap_or_default());
            format!("fault{delay}{abort}")
        }
        FilterConfig::Session(Some(session)) => format!("session by cookie {:?}", session.cookie),
        FilterConfig::Session(None) => "session, off".to_owned(),
        FilterConfig::Rbac(_) => "rbac".to_owned(),
        FilterConfig::Custom(custom) => custom.config().type_name.to_string(),
    }
}
