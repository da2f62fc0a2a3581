//! Policies and HTTP filters that Envoy applies, as texts.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::route::v3::route_action::HashPolicy;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::PolicySpecifier;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::{
    FilterConfig, RetryPolicy, RouteAction as RouteProto,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::google::protobuf::{Any, Duration};
use prost::Message;

use super::entry::Part;
use super::matcher::MatchedRequest;
use super::table::{Host, Route, Table};

/// Returns the policies of a route.
pub(super) fn of(
    part: &Part,
    (table, host): (&Table, &Host),
    action: &RouteProto,
    seen: MatchedRequest<'_>,
) -> Vec<String> {
    let mut policies = vec![timeout(part, action)];
    if let Some(idle) = &action.idle_timeout {
        policies.push(format!("idle timeout: {}", duration(idle)));
    }
    // Envoy: the policy of the route, else that of the virtual host.
    let retry = action
        .retry_policy
        .as_ref()
        .or(host.proto.retry_policy.as_ref());
    policies.extend(retry.map(retries));
    policies.extend(
        action
            .hash_policy
            .iter()
            .map(|policy| hashing(policy, seen)),
    );
    // Envoy: the mirrors of the most specific place count.
    let mirrors = [
        &action.request_mirror_policies,
        &host.proto.request_mirror_policies,
        &table.config.request_mirror_policies,
    ];
    let mirrors = mirrors.into_iter().find(|mirrors| !mirrors.is_empty());
    for mirror in mirrors.into_iter().flatten() {
        policies.push(match mirror.cluster.as_str() {
            "" => format!("mirror: cluster of header {:?}", mirror.cluster_header),
            cluster => format!("mirror: {cluster}"),
        });
    }
    if !action.prefix_rewrite.is_empty() {
        policies.push(format!("rewrite: prefix to {:?}", action.prefix_rewrite));
    }
    if action.regex_rewrite.is_some() {
        policies.push("rewrite: path by regex_rewrite".to_owned());
    }
    if action.path_rewrite_policy.is_some() {
        policies.push("rewrite: path by path_rewrite_policy".to_owned());
    }
    if !action.path_rewrite.is_empty() {
        policies.push("rewrite: path by path_rewrite".to_owned());
    }
    policies
}

/// Returns the limit on the duration: that of streams replaces that of requests (`max_stream_duration`).
fn timeout(part: &Part, action: &RouteProto) -> String {
    let stream = action.max_stream_duration.as_ref();
    let of_header = stream.and_then(|stream| stream.grpc_timeout_header_max.as_ref());
    let of_stream = stream.and_then(|stream| stream.max_stream_duration.as_ref());
    let options = part.manager.common_http_protocol_options.as_ref();
    let of_listener = options.and_then(|options| options.max_stream_duration.as_ref());
    let mut texts = vec![match (&action.timeout, of_header.or(of_stream)) {
        (Some(timeout), _) => duration(timeout),
        // Envoy: a route with max_stream_duration has no default timeout.
        (None, Some(_)) => "none".to_owned(),
        (None, None) => "15s (default)".to_owned(),
    }];
    if let Some(limit) = of_header {
        texts.push(format!("grpc-timeout at most {}", duration(limit)));
    }
    if let Some(limit) = of_stream.or(of_listener) {
        texts.push(format!("stream at most {}", duration(limit)));
    }
    format!("timeout: {}", texts.join(", "))
}

fn retries(policy: &RetryPolicy) -> String {
    let retries = policy.num_retries.map_or(1, |retries| retries.value);
    let per_try = policy.per_try_timeout.as_ref();
    let per_try = per_try.map(|timeout| format!(", {} per try", duration(timeout)));
    let per_try = per_try.unwrap_or_default();
    format!(
        "retry: on {}, at most {retries} retries{per_try}",
        policy.retry_on
    )
}

fn hashing(policy: &HashPolicy, seen: MatchedRequest<'_>) -> String {
    let last = if policy.terminal { ", terminal" } else { "" };
    let what = match &policy.policy_specifier {
        Some(PolicySpecifier::Header(header)) => {
            let name = header.header_name.to_ascii_lowercase();
            match seen.header(&name) {
                Some(value) => format!("header {name:?}, here {value:?}"),
                None => format!("header {name:?}, here absent"),
            }
        }
        Some(PolicySpecifier::Cookie(cookie)) => format!("cookie {:?}", cookie.name),
        Some(PolicySpecifier::ConnectionProperties(_)) => "source address".to_owned(),
        Some(PolicySpecifier::QueryParameter(query)) => {
            format!("query parameter {:?}", query.name)
        }
        Some(PolicySpecifier::FilterState(state)) => format!("filter state {:?}", state.key),
        None => "nothing".to_owned(),
    };
    format!("hash: {what}{last}")
}

fn duration(proto: &Duration) -> String {
    match crate::time::duration(proto) {
        Some(duration) if duration.is_zero() => "none".to_owned(),
        Some(duration) => format!("{duration:?}"),
        None => "invalid".to_owned(),
    }
}

/// Returns the HTTP filters in force as texts, with the place whose configuration counts.
pub(super) fn filters(
    part: &Part,
    (table, host): (&Table, &Host),
    route: &Route,
    cluster: Option<&ClusterWeight>,
) -> Vec<String> {
    let filters = in_force(part, (table, Some(host)), Some(route), cluster).into_iter();
    let texts = filters.map(|(filter, place)| match place {
        None => filter.name.clone(),
        Some(place) => format!("{} (configuration of the {place})", filter.name),
    });
    texts.collect()
}

/// Returns the HTTP filters in force, each with the place whose configuration counts if it is not the listener.
pub(super) fn in_force<'a>(
    part: &'a Part,
    (table, host): (&Table, Option<&Host>),
    route: Option<&Route>,
    cluster: Option<&ClusterWeight>,
) -> Vec<(&'a HttpFilter, Option<&'static str>)> {
    // Envoy: the most specific configuration counts.
    let places: [(&'static str, Option<&HashMap<String, Any>>); 4] = [
        (
            "weighted cluster",
            cluster.map(|one| &one.typed_per_filter_config),
        ),
        (
            "route",
            route.map(|route| &route.proto.typed_per_filter_config),
        ),
        (
            "virtual host",
            host.map(|host| &host.proto.typed_per_filter_config),
        ),
        (
            "route configuration",
            Some(&table.config.typed_per_filter_config),
        ),
    ];
    let filters = part.manager.http_filters.iter();
    let filters = filters.filter_map(|filter| {
        let mut found = places.iter();
        let own =
            found.find_map(|(place, configs)| Some((*place, configs.as_ref()?.get(&filter.name)?)));
        match own {
            None if filter.disabled => None,
            None => Some((filter, None)),
            Some((_, config)) if is_disabled(config) => None,
            Some((place, _)) => Some((filter, Some(place))),
        }
    });
    filters.collect()
}

fn is_disabled(any: &Any) -> bool {
    let is_wrapper = any.type_url.ends_with("envoy.config.route.v3.FilterConfig");
    let wrapper = is_wrapper.then(|| FilterConfig::decode(&*any.value));
    wrapper.is_some_and(|wrapper| wrapper.is_ok_and(|wrapper| wrapper.disabled))
}
