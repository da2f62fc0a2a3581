//! Minimal valid resources: messages here, documents in [`yaml`].

pub mod yaml;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, SelfConfigSource, config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route::Action,
    route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager::RouteSpecifier,
    http_filter::ConfigType,
};
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use prost::{Message, Name};

/// A cluster whose endpoints come by ADS, under this name.
#[must_use]
pub fn cluster(name: &str, eds_service_name: &str) -> Any {
    any(&ResourceType::CLUSTER, &eds_cluster(name, eds_service_name))
}

/// The same, with load reports to the control plane that sends it.
#[must_use]
pub fn reporting_cluster(name: &str, eds_service_name: &str) -> Any {
    let cluster = Cluster {
        lrs_server: Some(ConfigSource {
            config_source_specifier: Some(
                ConfigSourceSpecifier::Self_(SelfConfigSource::default()),
            ),
            ..ConfigSource::default()
        }),
        ..eds_cluster(name, eds_service_name)
    };
    any(&ResourceType::CLUSTER, &cluster)
}

/// A cluster with this many bytes in a field that no client reads.
#[must_use]
pub fn heavy_cluster(name: &str, bytes: usize) -> Any {
    let cluster = Cluster {
        alt_stat_name: "x".repeat(bytes),
        ..eds_cluster(name, "")
    };
    any(&ResourceType::CLUSTER, &cluster)
}

/// A cluster of a type that gRPC clients must reject (gRFC A27).
#[must_use]
pub fn static_cluster(name: &str) -> Any {
    let cluster = Cluster {
        name: name.to_owned(),
        ..Cluster::default()
    };
    any(&ResourceType::CLUSTER, &cluster)
}

/// An assignment without endpoints.
#[must_use]
pub fn assignment(name: &str) -> Any {
    let assignment = ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        ..ClusterLoadAssignment::default()
    };
    any(&ResourceType::ENDPOINT, &assignment)
}

/// A client's listener whose routes come by ADS, under this name.
#[must_use]
pub fn listener_with_rds(name: &str, routes: &str) -> Any {
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(ConfigType::TypedConfig(packed(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    };
    let listener = Listener {
        name: name.to_owned(),
        api_listener: Some(ApiListener {
            api_listener: Some(packed(&manager)),
        }),
        ..Listener::default()
    };
    any(&ResourceType::LISTENER, &listener)
}

/// Routes that send every call of a domain to one cluster.
#[must_use]
pub fn routes_to(name: &str, domain: &str, cluster: &str) -> Any {
    let everything = RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix(String::new())),
        ..RouteMatch::default()
    };
    let to_cluster = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        ..RouteAction::default()
    };
    let host = VirtualHost {
        name: domain.to_owned(),
        domains: vec![domain.to_owned()],
        routes: vec![Route {
            r#match: Some(everything),
            action: Some(Action::Route(to_cluster)),
            ..Route::default()
        }],
        ..VirtualHost::default()
    };
    let routes = RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts: vec![host],
        ..RouteConfiguration::default()
    };
    any(&ResourceType::ROUTE, &routes)
}

fn packed<M: Message + Name>(message: &M) -> envoy_types::pb::google::protobuf::Any {
    envoy_types::pb::google::protobuf::Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}

fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

fn eds_cluster(name: &str, eds_service_name: &str) -> Cluster {
    let eds = EdsClusterConfig {
        eds_config: Some(ads()),
        service_name: eds_service_name.to_owned(),
    };
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(eds),
        ..Cluster::default()
    }
}

fn any(resource_type: &ResourceType, message: &impl Message) -> Any {
    Any {
        type_url: resource_type.type_url().to_owned(),
        value: message.encode_to_vec().into(),
    }
}
