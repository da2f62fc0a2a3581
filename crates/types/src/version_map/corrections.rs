//! Facts about v2 and v3 of Envoy's API that no annotation states. The v2 descriptors have no options, so the renames
//! of v2 are here.

use crate::translate::Correction;

const STRIPPED: &str =
    "annotated with field_migrate.rename in v2, whose descriptors have no options here";
const STRIPPED_VALUE: &str =
    "annotated with enum_value_migrate.rename in v2, whose descriptors have no options here";

const fn renamed(parent: &'static str, old: &'static str, new: &'static str) -> Correction {
    Correction::Renamed {
        parent,
        old,
        new,
        reason: STRIPPED,
    }
}

/// All corrections.
pub(super) const CORRECTIONS: &[Correction] = &[
    Correction::Previous {
        message: "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        previous: "envoy.config.filter.http.ext_authz.v2.ExtAuthz",
        reason: "the annotation names a v3 message that never existed: it means the v2 message of that name",
    },
    // v3 has a newer field `host_rewrite`, which is another one.
    renamed(
        "envoy.api.v2.route.RouteAction",
        "host_rewrite",
        "host_rewrite_literal",
    ),
    renamed(
        "envoy.api.v2.route.RouteAction",
        "auto_host_rewrite_header",
        "host_rewrite_header",
    ),
    renamed(
        "envoy.api.v2.Cluster",
        "drain_connections_on_host_removal",
        "ignore_health_on_host_removal",
    ),
    renamed(
        "envoy.config.filter.http.dynamic_forward_proxy.v2alpha.PerRouteConfig",
        "host_rewrite",
        "host_rewrite_literal",
    ),
    renamed(
        "envoy.config.filter.http.dynamic_forward_proxy.v2alpha.PerRouteConfig",
        "auto_host_rewrite_header",
        "host_rewrite_header",
    ),
    renamed(
        "envoy.service.ratelimit.v2.RateLimitResponse",
        "headers",
        "response_headers_to_add",
    ),
    Correction::Renamed {
        parent: "envoy.api.v2.listener.FilterChainMatch.ConnectionSourceType",
        old: "LOCAL",
        new: "SAME_IP_OR_LOOPBACK",
        reason: STRIPPED_VALUE,
    },
    Correction::Fixed {
        message: "envoy.config.core.v3.ConfigSource",
        field: "resource_api_version",
        value: 2,
        reason: "the default is v2, which no current client supports; 2 is ApiVersion.V3",
    },
    Correction::Fixed {
        message: "envoy.config.core.v3.ApiConfigSource",
        field: "transport_api_version",
        value: 2,
        reason: "the default is v2, which no current client supports; 2 is ApiVersion.V3",
    },
];
