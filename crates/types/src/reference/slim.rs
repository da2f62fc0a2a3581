//! Messages of the API, reduced to the fields that refer to other resources. All other fields are skipped, so decoding
//! is several times cheaper than that of the complete messages. A test compares names and numbers with the descriptors.

use bytes::Bytes;

/// Declares messages with a few of their fields. The string is the full name in the API.
macro_rules! slim {
    ($($(#[doc = $doc:literal])* $name:ident = $full_name:literal {
        $($field:ident: $ty:ty = #[$($attribute:tt)*],)*
    })*) => {
        $(
            #[derive(Clone, PartialEq, prost::Message)]
            pub(super) struct $name {
                $(#[prost($($attribute)*)] pub(super) $field: $ty,)*
            }
        )*

        /// Full name of every message declared here, with its fields and their attributes.
        #[cfg(test)]
        pub(super) const DECLARED: &[(&str, &[(&str, &str)])] = &[
            $(($full_name, &[$((stringify!($field), stringify!($($attribute)*)),)*]),)*
        ];
    };
}

slim! {
    Any = "google.protobuf.Any" {
        type_url: String = #[string, tag = "1"],
        value: Bytes = #[bytes = "bytes", tag = "2"],
    }
    ConfigSource = "envoy.config.core.v3.ConfigSource" {
        path: Option<String> = #[string, optional, tag = "1"],
        path_config_source: Option<Bytes> = #[bytes = "bytes", optional, tag = "8"],
    }
    Cluster = "envoy.config.cluster.v3.Cluster" {
        name: String = #[string, tag = "1"],
        r#type: i32 = #[int32, tag = "2"],
        eds_cluster_config: Option<EdsClusterConfig> = #[message, optional, tag = "3"],
        cluster_type: Option<CustomClusterType> = #[message, optional, tag = "38"],
        transport_socket: Option<TransportSocket> = #[message, optional, tag = "24"],
        transport_socket_matches: Vec<TransportSocketMatch> = #[message, repeated, tag = "43"],
    }
    EdsClusterConfig = "envoy.config.cluster.v3.Cluster.EdsClusterConfig" {
        eds_config: Option<ConfigSource> = #[message, optional, tag = "1"],
        service_name: String = #[string, tag = "2"],
    }
    CustomClusterType = "envoy.config.cluster.v3.Cluster.CustomClusterType" {
        typed_config: Option<Any> = #[message, optional, tag = "2"],
    }
    AggregateClusterConfig = "envoy.extensions.clusters.aggregate.v3.ClusterConfig" {
        clusters: Vec<String> = #[string, repeated, tag = "1"],
    }
    TransportSocketMatch = "envoy.config.cluster.v3.Cluster.TransportSocketMatch" {
        transport_socket: Option<TransportSocket> = #[message, optional, tag = "3"],
    }
    TransportSocket = "envoy.config.core.v3.TransportSocket" {
        typed_config: Option<Any> = #[message, optional, tag = "3"],
    }
    TlsContext = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext" {
        common_tls_context: Option<CommonTlsContext> = #[message, optional, tag = "1"],
    }
    CommonTlsContext = "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext" {
        tls_certificate_sds_secret_configs: Vec<SdsSecretConfig> = #[message, repeated, tag = "6"],
        validation_context_sds_secret_config: Option<SdsSecretConfig> =
            #[message, optional, tag = "7"],
        combined_validation_context: Option<CombinedContext> = #[message, optional, tag = "8"],
    }
    CombinedContext =
        "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext" {
        validation_context_sds_secret_config: Option<SdsSecretConfig> =
            #[message, optional, tag = "2"],
    }
    SdsSecretConfig = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig" {
        name: String = #[string, tag = "1"],
        sds_config: Option<ConfigSource> = #[message, optional, tag = "2"],
    }
    Listener = "envoy.config.listener.v3.Listener" {
        filter_chains: Vec<FilterChain> = #[message, repeated, tag = "3"],
        default_filter_chain: Option<FilterChain> = #[message, optional, tag = "25"],
        api_listener: Option<ApiListener> = #[message, optional, tag = "19"],
    }
    FilterChain = "envoy.config.listener.v3.FilterChain" {
        filters: Vec<Filter> = #[message, repeated, tag = "3"],
        transport_socket: Option<TransportSocket> = #[message, optional, tag = "6"],
    }
    Filter = "envoy.config.listener.v3.Filter" {
        name: String = #[string, tag = "1"],
        typed_config: Option<Any> = #[message, optional, tag = "4"],
        config_discovery: Option<ExtensionConfigSource> = #[message, optional, tag = "5"],
    }
    ExtensionConfigSource = "envoy.config.core.v3.ExtensionConfigSource" {
        config_source: Option<ConfigSource> = #[message, optional, tag = "1"],
    }
    ApiListener = "envoy.config.listener.v3.ApiListener" {
        api_listener: Option<Any> = #[message, optional, tag = "1"],
    }
    HttpConnectionManager =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager" {
        rds: Option<Rds> = #[message, optional, tag = "3"],
        route_config: Option<RouteConfiguration> = #[message, optional, tag = "4"],
        http_filters: Vec<HttpFilter> = #[message, repeated, tag = "5"],
        scoped_routes: Option<ScopedRoutes> = #[message, optional, tag = "31"],
    }
    HttpFilter = "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter" {
        name: String = #[string, tag = "1"],
        config_discovery: Option<ExtensionConfigSource> = #[message, optional, tag = "5"],
    }
    Rds = "envoy.extensions.filters.network.http_connection_manager.v3.Rds" {
        config_source: Option<ConfigSource> = #[message, optional, tag = "1"],
        route_config_name: String = #[string, tag = "2"],
    }
    ScopedRoutes = "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes" {
        scoped_route_configurations_list: Option<ScopedRoutesList> =
            #[message, optional, tag = "4"],
    }
    ScopedRoutesList =
        "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRouteConfigurationsList" {
        scoped_route_configurations: Vec<ScopedRouteConfiguration> = #[message, repeated, tag = "1"],
    }
    ScopedRouteConfiguration = "envoy.config.route.v3.ScopedRouteConfiguration" {
        route_configuration_name: String = #[string, tag = "2"],
        route_configuration: Option<RouteConfiguration> = #[message, optional, tag = "5"],
    }
    TcpProxy = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy" {
        cluster: String = #[string, tag = "2"],
        weighted_clusters: Option<WeightedCluster> = #[message, optional, tag = "10"],
    }
    RouteConfiguration = "envoy.config.route.v3.RouteConfiguration" {
        virtual_hosts: Vec<VirtualHost> = #[message, repeated, tag = "2"],
        request_mirror_policies: Vec<MirrorPolicy> = #[message, repeated, tag = "13"],
    }
    VirtualHost = "envoy.config.route.v3.VirtualHost" {
        routes: Vec<Route> = #[message, repeated, tag = "3"],
        request_mirror_policies: Vec<MirrorPolicy> = #[message, repeated, tag = "22"],
    }
    Route = "envoy.config.route.v3.Route" {
        route: Option<RouteAction> = #[message, optional, tag = "2"],
    }
    RouteAction = "envoy.config.route.v3.RouteAction" {
        cluster: String = #[string, tag = "1"],
        weighted_clusters: Option<WeightedCluster> = #[message, optional, tag = "3"],
        request_mirror_policies: Vec<MirrorPolicy> = #[message, repeated, tag = "30"],
    }
    // `TcpProxy.WeightedCluster` has the same shape and numbers.
    WeightedCluster = "envoy.config.route.v3.WeightedCluster" {
        clusters: Vec<ClusterWeight> = #[message, repeated, tag = "1"],
    }
    ClusterWeight = "envoy.config.route.v3.WeightedCluster.ClusterWeight" {
        name: String = #[string, tag = "1"],
    }
    MirrorPolicy = "envoy.config.route.v3.RouteAction.RequestMirrorPolicy" {
        cluster: String = #[string, tag = "1"],
    }
}
