//! Resources with one deprecated or unfinished field each.

/// A field, and a resource that uses it.
pub(super) struct Case {
    /// Name of the field, after that of its message.
    pub(super) field: &'static str,
    pub(super) resource: YamlTarget,
    /// Reason why Envoy refuses the resource and oxds does not, although the field alone decides it in oxds.
    pub(super) difference: Option<&'static str>,
}

/// Where the YAML of a case belongs.
pub(super) enum YamlTarget {
    /// Fields of a cluster.
    Cluster(&'static str),
    /// Fields of `HttpProtocolOptions` of a cluster.
    Upstream(&'static str),
    /// A load-balancing policy of a cluster: its message, and its fields.
    Policy(&'static str, &'static str),
    /// Fields of a listener.
    Listener(&'static str),
    /// Fields of a `HttpConnectionManager`.
    Manager(&'static str),
    /// Fields of the access log `FileAccessLog` of a manager.
    AccessLog(&'static str),
    /// A HTTP filter before the router: its message, and its fields.
    Filter(&'static str, &'static str),
    /// Fields of a virtual host.
    Host(&'static str),
    /// Fields of a route.
    Route(&'static str),
    /// Fields of a route's `match` beside its prefix.
    Match(&'static str),
    /// Fields of a route's action beside its cluster.
    Action(&'static str),
    /// Fields of a `TcpProxy` in place of the manager.
    Tcp(&'static str),
}

use YamlTarget::{
    AccessLog, Action, Cluster, Filter, Host, Listener, Manager, Match, Policy, Route, Tcp,
    Upstream,
};

const fn same(field: &'static str, resource: YamlTarget) -> Case {
    Case {
        field,
        resource,
        difference: None,
    }
}

const fn differs(field: &'static str, resource: YamlTarget, difference: &'static str) -> Case {
    Case {
        field,
        resource,
        difference: Some(difference),
    }
}

pub(super) const CASES: &[Case] = &[
    same(
        "Cluster.max_requests_per_connection",
        Cluster("max_requests_per_connection: 5"),
    ),
    same(
        "Cluster.upstream_http_protocol_options",
        Cluster("upstream_http_protocol_options: { auto_sni: true }"),
    ),
    same(
        "Cluster.common_http_protocol_options",
        Cluster("common_http_protocol_options: { idle_timeout: 5s }"),
    ),
    same(
        "Cluster.http_protocol_options",
        Cluster("http_protocol_options: {}"),
    ),
    same(
        "Cluster.http2_protocol_options",
        Cluster("http2_protocol_options: {}"),
    ),
    same("Cluster.dns_refresh_rate", Cluster("dns_refresh_rate: 5s")),
    same("Cluster.dns_jitter", Cluster("dns_jitter: 1s")),
    same(
        "Cluster.dns_failure_refresh_rate",
        Cluster("dns_failure_refresh_rate: { base_interval: 5s }"),
    ),
    same("Cluster.respect_dns_ttl", Cluster("respect_dns_ttl: true")),
    same(
        "Cluster.use_tcp_for_dns_lookups",
        Cluster("use_tcp_for_dns_lookups: true"),
    ),
    same(
        "Cluster.dns_resolution_config",
        Cluster(
            "dns_resolution_config: { resolvers: [{ socket_address: { address: 127.0.0.1, port_value: 53 } }] }",
        ),
    ),
    same(
        "Cluster.protocol_selection",
        Cluster("protocol_selection: USE_DOWNSTREAM_PROTOCOL"),
    ),
    same(
        "Cluster.track_timeout_budgets",
        Cluster("track_timeout_budgets: true"),
    ),
    same(
        "HealthCheck.event_log_path",
        Cluster(
            "health_checks: [{ timeout: 1s, interval: 1s, healthy_threshold: 1, unhealthy_threshold: 1, tcp_health_check: {}, event_log_path: /dev/null }]",
        ),
    ),
    same(
        "BindConfig.additional_source_addresses",
        Cluster(
            "upstream_bind_config: { source_address: { address: 127.0.0.1, port_value: 0 }, additional_source_addresses: [{ address: \"::1\", port_value: 0 }] }",
        ),
    ),
    same(
        "UpstreamTlsContext.enforce_rsa_key_usage",
        Cluster(
            "transport_socket: { name: tls, typed_config: { \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, enforce_rsa_key_usage: true } }",
        ),
    ),
    same(
        "ApiConfigSource.api_type, unset",
        Cluster(
            "type: EDS\neds_cluster_config: { eds_config: { resource_api_version: V3, api_config_source: { transport_api_version: V3, grpc_services: [{ envoy_grpc: { cluster_name: xds } }] } } }",
        ),
    ),
    differs(
        "ApiVersion.V2",
        Cluster(
            "type: EDS\neds_cluster_config: { eds_config: { resource_api_version: V3, api_config_source: { api_type: GRPC, transport_api_version: V2, grpc_services: [{ envoy_grpc: { cluster_name: xds } }] } } }",
        ),
        "the value is only deprecated, but this Envoy has no v2 any more",
    ),
    same(
        "Http2ProtocolOptions.stream_error_on_invalid_http_messaging",
        Upstream("http2_protocol_options: { stream_error_on_invalid_http_messaging: true }"),
    ),
    same(
        "Http2ProtocolOptions.use_oghttp2_codec, in progress",
        Upstream("http2_protocol_options: { use_oghttp2_codec: true }"),
    ),
    same(
        "Http1ProtocolOptions.use_balsa_parser",
        Upstream("http_protocol_options: { use_balsa_parser: true }"),
    ),
    same(
        "Http1ProtocolOptions.allow_custom_methods, in progress",
        Upstream("http_protocol_options: { allow_custom_methods: true }"),
    ),
    same(
        "RingHash.use_hostname_for_hashing",
        Policy("ring_hash.v3.RingHash", "use_hostname_for_hashing: true"),
    ),
    same(
        "RingHash.hash_balance_factor",
        Policy("ring_hash.v3.RingHash", "hash_balance_factor: 150"),
    ),
    same(
        "LeastRequest.enable_full_scan",
        Policy("least_request.v3.LeastRequest", "enable_full_scan: true"),
    ),
    same(
        "ZoneAwareLbConfig.force_locality_direct_routing",
        Policy(
            "round_robin.v3.RoundRobin",
            "locality_lb_config: { zone_aware_lb_config: { force_locality_direct_routing: true } }",
        ),
    ),
    same("Listener.reuse_port", Listener("reuse_port: true")),
    same(
        "Listener.deprecated_v1",
        Listener("deprecated_v1: { bind_to_port: false }"),
    ),
    same(
        "HttpConnectionManager.access_log_flush_interval",
        Manager("access_log_flush_interval: 5s"),
    ),
    same(
        "HttpConnectionManager.flush_access_log_on_new_request",
        Manager("flush_access_log_on_new_request: true"),
    ),
    same(
        "ZipkinConfig.collector_endpoint_version, unset",
        Manager(
            "tracing: { provider: { name: zipkin, typed_config: { \"@type\": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig, collector_cluster: xds, collector_endpoint: /spans } } }",
        ),
    ),
    same(
        "ZipkinConfig.split_spans_for_request",
        Manager(
            "tracing: { provider: { name: zipkin, typed_config: { \"@type\": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig, collector_cluster: xds, collector_endpoint: /spans, collector_endpoint_version: HTTP_JSON, split_spans_for_request: true } } }",
        ),
    ),
    same(
        "DynamicOtConfig.library",
        Manager(
            "tracing: { provider: { name: ot, typed_config: { \"@type\": type.googleapis.com/envoy.config.trace.v3.DynamicOtConfig, library: /lib/x.so } } }",
        ),
    ),
    same("FileAccessLog.format", AccessLog("format: x")),
    same(
        "FileAccessLog.json_format",
        AccessLog("json_format: { a: b }"),
    ),
    same(
        "FileAccessLog.typed_json_format",
        AccessLog("typed_json_format: { a: b }"),
    ),
    same(
        "SubstitutionFormatString.text_format",
        AccessLog("log_format: { text_format: x }"),
    ),
    same(
        "Router.start_child_span",
        Filter("router.v3.Router", "start_child_span: true"),
    ),
    same(
        "Lua.inline_code",
        Filter("lua.v3.Lua", "inline_code: \"-- nothing\""),
    ),
    same(
        "CustomResponse, in a file in progress",
        Filter("custom_response.v3.CustomResponse", ""),
    ),
    same(
        "Permission.metadata",
        Filter(
            "rbac.v3.RBAC",
            "rules: { policies: { a: { permissions: [{ metadata: { filter: x, path: [{ key: y }], value: { present_match: true } } }], principals: [{ any: true }] } } }",
        ),
    ),
    same(
        "Principal.source_ip",
        Filter(
            "rbac.v3.RBAC",
            "rules: { policies: { a: { permissions: [{ any: true }], principals: [{ source_ip: { address_prefix: 10.0.0.0, prefix_len: 8 } }] } } }",
        ),
    ),
    same(
        "VirtualHost.per_request_buffer_limit_bytes",
        Host("per_request_buffer_limit_bytes: 100"),
    ),
    same(
        "HeaderValueOption.append",
        Host("response_headers_to_add: [{ header: { key: a, value: b }, append: true }]"),
    ),
    same(
        "RateLimit.Action.dynamic_metadata",
        Host(
            "rate_limits: [{ actions: [{ dynamic_metadata: { descriptor_key: user, metadata_key: { key: k, path: [{ key: p }] } } }] }]",
        ),
    ),
    same(
        "Route.per_request_buffer_limit_bytes",
        Route("per_request_buffer_limit_bytes: 100"),
    ),
    same(
        "HeaderMatcher.exact_match",
        Match("headers: [{ name: a, exact_match: b }]"),
    ),
    same(
        "HeaderMatcher.prefix_match",
        Match("headers: [{ name: a, prefix_match: b }]"),
    ),
    same(
        "HeaderMatcher.suffix_match",
        Match("headers: [{ name: a, suffix_match: b }]"),
    ),
    same(
        "HeaderMatcher.contains_match",
        Match("headers: [{ name: a, contains_match: b }]"),
    ),
    same(
        "HeaderMatcher.safe_regex_match",
        Match("headers: [{ name: a, safe_regex_match: { regex: b } }]"),
    ),
    same(
        "RegexMatcher.google_re2",
        Match("headers: [{ name: a, string_match: { safe_regex: { google_re2: {}, regex: b } } }]"),
    ),
    same(
        "RouteAction.max_grpc_timeout",
        Action("max_grpc_timeout: 5s"),
    ),
    same(
        "RouteAction.grpc_timeout_offset",
        Action("grpc_timeout_offset: 1s"),
    ),
    same(
        "RouteAction.max_internal_redirects",
        Action("max_internal_redirects: 2"),
    ),
    same(
        "RouteAction.include_vh_rate_limits",
        Action("include_vh_rate_limits: true"),
    ),
    same(
        "TcpProxy.access_log_flush_interval",
        Tcp("access_log_flush_interval: 5s"),
    ),
    same(
        "TcpProxy.flush_access_log_on_connected",
        Tcp("flush_access_log_on_connected: true"),
    ),
];
