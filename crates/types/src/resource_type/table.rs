//! The table of resource types: one row per type, in the order in which changes are sent.

/// A discovery service: of one resource type, or the aggregated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Full name of the gRPC service.
    pub name: &'static str,
    /// Name of the bidirectional SotW method.
    pub stream: Option<&'static str>,
    /// Name of the bidirectional delta method.
    pub delta: Option<&'static str>,
    /// Name of the unary method.
    pub fetch: Option<&'static str>,
    /// HTTP path of the unary method in REST (`google.api.http`).
    pub rest: Option<&'static str>,
}

/// The aggregated discovery service, v3 and v2; see [`Service::aggregated`].
pub const ADS: [Service; 2] = [
    Service {
        name: "envoy.service.discovery.v3.AggregatedDiscoveryService",
        stream: Some("StreamAggregatedResources"),
        delta: Some("DeltaAggregatedResources"),
        fetch: None,
        rest: None,
    },
    Service {
        name: "envoy.service.discovery.v2.AggregatedDiscoveryService",
        stream: Some("StreamAggregatedResources"),
        delta: Some("DeltaAggregatedResources"),
        fetch: None,
        rest: None,
    },
];

/// A row of the table.
pub(super) struct TypeRow {
    pub(super) short_name: &'static str,
    pub(super) v3_url: &'static str,
    pub(super) v2_url: Option<&'static str>,
    pub(super) all_resources_required_in_sotw: bool,
    pub(super) v3_service: Service,
    pub(super) v2_service: Option<Service>,
}

/// A service with the usual method names: `Stream`, `Delta` and `Fetch` before the same noun.
macro_rules! service {
    ($name:literal, $noun:literal, $rest:literal) => {
        Service {
            name: $name,
            stream: Some(concat!("Stream", $noun)),
            delta: Some(concat!("Delta", $noun)),
            fetch: Some(concat!("Fetch", $noun)),
            rest: Some($rest),
        }
    };
    ($name:literal, delta $noun:literal) => {
        Service {
            name: $name,
            stream: None,
            delta: Some(concat!("Delta", $noun)),
            fetch: None,
            rest: None,
        }
    };
}

macro_rules! url {
    ($message:literal) => {
        concat!("type.googleapis.com/", $message)
    };
}

/// Rows by the index in the constants of `ResourceType`. A test compares the two.
pub(super) static KNOWN: [TypeRow; 11] = [
    TypeRow {
        short_name: "cds",
        v3_url: url!("envoy.config.cluster.v3.Cluster"),
        v2_url: Some(url!("envoy.api.v2.Cluster")),
        all_resources_required_in_sotw: true,
        v3_service: service!(
            "envoy.service.cluster.v3.ClusterDiscoveryService",
            "Clusters",
            "/v3/discovery:clusters"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.ClusterDiscoveryService",
            "Clusters",
            "/v2/discovery:clusters"
        )),
    },
    TypeRow {
        short_name: "eds",
        v3_url: url!("envoy.config.endpoint.v3.ClusterLoadAssignment"),
        v2_url: Some(url!("envoy.api.v2.ClusterLoadAssignment")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.endpoint.v3.EndpointDiscoveryService",
            "Endpoints",
            "/v3/discovery:endpoints"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.EndpointDiscoveryService",
            "Endpoints",
            "/v2/discovery:endpoints"
        )),
    },
    TypeRow {
        short_name: "leds",
        v3_url: url!("envoy.config.endpoint.v3.LbEndpoint"),
        v2_url: None,
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService",
            delta "LocalityEndpoints"
        ),
        v2_service: None,
    },
    TypeRow {
        short_name: "sds",
        v3_url: url!("envoy.extensions.transport_sockets.tls.v3.Secret"),
        v2_url: Some(url!("envoy.api.v2.auth.Secret")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.secret.v3.SecretDiscoveryService",
            "Secrets",
            "/v3/discovery:secrets"
        ),
        v2_service: Some(service!(
            "envoy.service.discovery.v2.SecretDiscoveryService",
            "Secrets",
            "/v2/discovery:secrets"
        )),
    },
    TypeRow {
        short_name: "lds",
        v3_url: url!("envoy.config.listener.v3.Listener"),
        v2_url: Some(url!("envoy.api.v2.Listener")),
        all_resources_required_in_sotw: true,
        v3_service: service!(
            "envoy.service.listener.v3.ListenerDiscoveryService",
            "Listeners",
            "/v3/discovery:listeners"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.ListenerDiscoveryService",
            "Listeners",
            "/v2/discovery:listeners"
        )),
    },
    TypeRow {
        short_name: "rds",
        v3_url: url!("envoy.config.route.v3.RouteConfiguration"),
        v2_url: Some(url!("envoy.api.v2.RouteConfiguration")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.route.v3.RouteDiscoveryService",
            "Routes",
            "/v3/discovery:routes"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.RouteDiscoveryService",
            "Routes",
            "/v2/discovery:routes"
        )),
    },
    TypeRow {
        short_name: "srds",
        v3_url: url!("envoy.config.route.v3.ScopedRouteConfiguration"),
        v2_url: Some(url!("envoy.api.v2.ScopedRouteConfiguration")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.route.v3.ScopedRoutesDiscoveryService",
            "ScopedRoutes",
            "/v3/discovery:scoped-routes"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.ScopedRoutesDiscoveryService",
            "ScopedRoutes",
            "/v2/discovery:scoped-routes"
        )),
    },
    TypeRow {
        short_name: "vhds",
        v3_url: url!("envoy.config.route.v3.VirtualHost"),
        v2_url: Some(url!("envoy.api.v2.route.VirtualHost")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.route.v3.VirtualHostDiscoveryService",
            delta "VirtualHosts"
        ),
        v2_service: Some(service!(
            "envoy.api.v2.VirtualHostDiscoveryService",
            delta "VirtualHosts"
        )),
    },
    TypeRow {
        short_name: "rtds",
        v3_url: url!("envoy.service.runtime.v3.Runtime"),
        v2_url: Some(url!("envoy.service.discovery.v2.Runtime")),
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.runtime.v3.RuntimeDiscoveryService",
            "Runtime",
            "/v3/discovery:runtime"
        ),
        v2_service: Some(service!(
            "envoy.service.discovery.v2.RuntimeDiscoveryService",
            "Runtime",
            "/v2/discovery:runtime"
        )),
    },
    TypeRow {
        short_name: "ecds",
        v3_url: url!("envoy.config.core.v3.TypedExtensionConfig"),
        v2_url: None,
        all_resources_required_in_sotw: false,
        v3_service: service!(
            "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
            "ExtensionConfigs",
            "/v3/discovery:extension_configs"
        ),
        v2_service: None,
    },
    TypeRow {
        short_name: "rlsc",
        v3_url: url!("ratelimit.config.ratelimit.v3.RateLimitConfig"),
        v2_url: None,
        all_resources_required_in_sotw: false,
        v3_service: Service {
            name: "ratelimit.service.ratelimit.v3.RateLimitConfigDiscoveryService",
            stream: Some("StreamRlsConfigs"),
            delta: None,
            fetch: Some("FetchRlsConfigs"),
            rest: None,
        },
        v2_service: None,
    },
];
