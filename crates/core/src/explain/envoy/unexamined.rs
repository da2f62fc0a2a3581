//! Fields that could change Envoy's answer, and that are not examined.
//!
//! | set in | note |
//! |---|---|
//! | listener, route configuration | if it could matter to this request, such as `normalize_path` to a path with `%` |
//! | virtual host | if the request has this virtual host |
//! | route | if the request reaches the route; about its action, if the route takes the request |
//!
//! A test (`fields`) sorts all fields of these messages, so that a new field of Envoy's API is not forgotten.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction;
use envoy_types::pb::envoy::config::route::v3::route::Action as ActionProto;
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterSpecifier, InternalRedirectAction,
};
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::RandomValueSpecifier;
use envoy_types::pb::envoy::config::route::v3::{RouteAction, WeightedCluster};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;

use crate::explain::model::{Action, Decision};
use crate::explain::request::Request;
use crate::lb::Headers as _;

use super::entry::Part;
use super::policies::in_force;
use super::table::{Host, Route, Table};

/// Headers that the connection manager writes or removes before it chooses a route, with the fields that decide about
/// it (Envoy, `ConnectionManagerUtility::mutateRequestHeaders`). A name that ends with `-` stands for all headers with
/// this prefix.
const WRITTEN: [(&str, &str); 9] = [
    (":scheme", "scheme_header_transformation"),
    ("user-agent", "add_user_agent"),
    ("via", "via"),
    (
        "x-envoy-",
        "use_remote_address, xff_num_trusted_hops, internal_address_config, original_ip_detection_extensions, add_user_agent",
    ),
    (
        "x-forwarded-client-cert",
        "forward_client_cert_details, set_current_client_cert_details, forward_client_cert_matcher",
    ),
    (
        "x-forwarded-for",
        "use_remote_address, skip_xff_append, represent_ipv4_remote_address_as_ipv4_mapped_ipv6",
    ),
    ("x-forwarded-port", "append_x_forwarded_port"),
    (
        "x-forwarded-proto",
        "use_remote_address, xff_num_trusted_hops, forward_proto_config",
    ),
    (
        "x-request-id",
        "generate_request_id, preserve_external_request_id, request_id_extension",
    ),
];

/// Types of HTTP filters that leave the choice of the route as it is: they neither clear Envoy's cached route nor set
/// another one.
const NEUTRAL_FILTERS: [&str; 16] = [
    "adaptive_concurrency.v3.AdaptiveConcurrency",
    "admission_control.v3.AdmissionControl",
    "bandwidth_limit.v3.BandwidthLimit",
    "buffer.v3.Buffer",
    "cdn_loop.v3.CdnLoopConfig",
    "compressor.v3.Compressor",
    "cors.v3.Cors",
    "csrf.v3.CsrfPolicy",
    "decompressor.v3.Decompressor",
    "fault.v3.HTTPFault",
    "grpc_stats.v3.FilterConfig",
    "grpc_web.v3.GrpcWeb",
    "local_ratelimit.v3.LocalRateLimit",
    "ratelimit.v3.RateLimit",
    "rbac.v3.RBAC",
    "router.v3.Router",
];

/// Returns the fields of the listener and the route configuration.
pub(super) fn of_listener(part: &Part, table: &Table, request: &Request) -> Vec<String> {
    let manager = &part.manager;
    let normalizes = manager
        .normalize_path
        .is_some_and(|normalize| normalize.value);
    let is_plain = !request.path.contains(['%', '\\']) && !request.path.contains("/.");
    let port = request.authority.contains(':');
    let options = manager.common_http_protocol_options.as_ref();
    let underscores = options.is_some_and(|options| {
        options.headers_with_underscores_action() != HeadersWithUnderscoresAction::Allow
    });
    let has_underscore = request.headers.iter().any(|(name, _)| name.contains('_'));
    let mut internal = table.config.internal_only_headers.iter();
    let fields = [
        ("normalize_path", normalizes && !is_plain),
        (
            "path_with_escaped_slashes_action",
            manager.path_with_escaped_slashes_action > 1 && !is_plain,
        ),
        (
            "strip_matching_host_port",
            manager.strip_matching_host_port && port,
        ),
        (
            "path_normalization_options",
            manager.path_normalization_options.is_some(),
        ),
        (
            "typed_header_validation_config",
            manager.typed_header_validation_config.is_some(),
        ),
        (
            "early_header_mutation_extensions",
            !manager.early_header_mutation_extensions.is_empty(),
        ),
        (
            "headers_with_underscores_action of common_http_protocol_options",
            underscores && has_underscore,
        ),
        (
            "whether the listener accepts the upgrade (upgrade_configs, http_protocol_options, http2_protocol_options, \
             http3_protocol_options)",
            request.method == "CONNECT" || request.get("upgrade").is_some(),
        ),
        ("vhost_header", !table.config.vhost_header.is_empty()),
        (
            "internal_only_headers",
            internal.any(|name| request.get(&name.to_ascii_lowercase()).is_some()),
        ),
        (
            "route_specifiers of the route configuration",
            !table.config.route_specifiers.is_empty(),
        ),
        ("a path with #", request.path.contains('#')),
    ];
    set(&fields)
}

/// Returns the fields of the virtual host; without one, the ways in which Envoy could find one.
pub(super) fn of_host(table: &Table, host: Option<&Host>) -> Vec<String> {
    let specifiers = host.is_some_and(|host| !host.proto.route_specifiers.is_empty());
    set(&[
        (
            "vhds: virtual hosts that clients ask for on demand",
            host.is_none() && table.config.vhds.is_some(),
        ),
        ("route_specifiers of the virtual host", specifiers),
    ])
}

/// Returns the headers that a route reads, and that the connection manager may have changed.
pub(super) fn of_headers(index: usize, route: &Route) -> Vec<String> {
    let conditions = route.proto.r#match.iter().flat_map(|proto| &proto.headers);
    let conditions = conditions.map(|header| header.name.as_str());
    let mut names: Vec<&str> = conditions.collect();
    if let Some(ActionProto::Route(action)) = &route.proto.action {
        match &action.cluster_specifier {
            Some(ClusterSpecifier::ClusterHeader(name)) => names.push(name),
            Some(ClusterSpecifier::WeightedClusters(weighted)) => {
                let clusters = weighted.clusters.iter();
                names.extend(clusters.map(|cluster| cluster.cluster_header.as_str()));
                if let Some(RandomValueSpecifier::HeaderName(name)) =
                    &weighted.random_value_specifier
                {
                    names.push(name);
                }
            }
            _ => {}
        }
    }
    let notes = names.iter().filter_map(|name| {
        let fields = writers(&name.to_ascii_lowercase())?;
        Some(format!(
            "route {index}: changes of header {name:?} by the HttpConnectionManager ({fields})"
        ))
    });
    notes.collect()
}

/// Returns the fields of the connection manager that decide about a header, if there are any.
fn writers(name: &str) -> Option<&'static str> {
    let is_meant = |own: &str| {
        if own.ends_with('-') {
            name.starts_with(own)
        } else {
            name == own
        }
    };
    let mut headers = WRITTEN.iter();
    headers.find_map(|(own, fields)| is_meant(own).then_some(*fields))
}

/// Returns the fields by which a route whose other conditions match could take more or fewer requests.
pub(super) fn of_match(index: usize, route: &Route) -> Vec<String> {
    let fraction = route.proto.r#match.as_ref();
    let fraction = fraction.and_then(|proto| proto.runtime_fraction.as_ref());
    fields_of_route(
        index,
        &[(
            "runtime_key of runtime_fraction",
            fraction.is_some_and(|fraction| !fraction.runtime_key.is_empty()),
        )],
    )
}

/// Returns the fields of a route that takes requests.
pub(super) fn of_taken(index: usize, route: &Route) -> Vec<String> {
    let action = match &route.proto.action {
        Some(ActionProto::Route(action)) => Some(action),
        _ => None,
    };
    let weighted = match action.and_then(|action| action.cluster_specifier.as_ref()) {
        Some(ClusterSpecifier::WeightedClusters(weighted)) => Some(weighted),
        _ => None,
    };
    let by_hash = |weighted: &WeightedCluster| {
        matches!(
            weighted.random_value_specifier,
            Some(RandomValueSpecifier::UseHashPolicy(by_hash)) if by_hash.value
        )
    };
    fields_of_route(
        index,
        &[
            ("route_specifiers", !route.proto.route_specifiers.is_empty()),
            (
                "runtime_key_prefix of weighted_clusters",
                weighted.is_some_and(|weighted| !weighted.runtime_key_prefix.is_empty()),
            ),
            (
                "use_hash_policy of weighted_clusters",
                weighted.is_some_and(by_hash),
            ),
            (
                "the route of a redirect that Envoy follows (internal_redirect_policy)",
                action.is_some_and(|action| action.internal_redirect_policy.is_some()),
            ),
            (
                "the route of a redirect that Envoy follows (internal_redirect_action, max_internal_redirects)",
                action.is_some_and(follows_redirects),
            ),
        ],
    )
}

/// Whether the deprecated fields let Envoy follow redirects.
fn follows_redirects(action: &RouteAction) -> bool {
    action.internal_redirect_action() == InternalRedirectAction::HandleInternalRedirect
}

/// Returns the HTTP filters in force that could choose another route: extensions, and filters that change headers.
pub(super) fn of_filters(
    part: &Part,
    (table, host): (&Table, Option<&Host>),
    route: Option<&Route>,
) -> Vec<String> {
    let filters = in_force(part, (table, host), route, None).into_iter();
    let active = filters.filter(|(filter, _)| {
        let config = match &filter.config_type {
            Some(ConfigType::TypedConfig(any)) => any.type_url.as_str(),
            _ => "",
        };
        !NEUTRAL_FILTERS
            .iter()
            .any(|neutral| config.ends_with(&format!(".http.{neutral}")))
    });
    let notes = active.map(|(filter, _)| format!("HTTP filter {:?} (http_filters)", filter.name));
    notes.collect()
}

/// Adds what is known only at the end: actions that were not examined, and clusters that do not exist. Each note is
/// there once.
pub(super) fn finish(table: &Table, decision: &mut Decision) {
    for destination in &decision.destinations {
        if let Action::Unknown { field } = &destination.action {
            decision.not_examined.push(match destination.route {
                Some(index) => format!("route {index}: {field}"),
                None => field.clone(),
            });
        }
    }
    let validates = table.config.validate_clusters;
    // Envoy rejects such a route configuration, or not, by the order of the updates.
    if validates.is_some_and(|validates| validates.value)
        && decision
            .clusters
            .iter()
            .any(|cluster| cluster.error.is_some())
    {
        decision.not_examined.push("validate_clusters".to_owned());
    }
    let mut known = BTreeSet::new();
    decision
        .not_examined
        .retain(|field| known.insert(field.clone()));
}

fn fields_of_route(index: usize, fields: &[(&str, bool)]) -> Vec<String> {
    let found = set(fields).into_iter();
    found
        .map(|field| format!("route {index}: {field}"))
        .collect()
}

/// Returns the fields that are set.
fn set(fields: &[(&str, bool)]) -> Vec<String> {
    let found = fields.iter().filter(|(_, is_set)| *is_set);
    found.map(|(field, _)| (*field).to_owned()).collect()
}
