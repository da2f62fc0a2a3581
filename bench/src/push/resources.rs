//! Resources of the servers in the push scenarios. `peers/go-control-plane` makes the peer's in the same way.

use std::time::{SystemTime, UNIX_EPOCH};

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::address::Address as AnyAddress;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ConfigSource, SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, Rds,
};
use envoy_types::pb::google::protobuf::{Any, Duration, UInt32Value};
use oxds_core::snapshot::Resource;
use oxds_types::ResourceType;
use prost::Message as _;

use crate::roles::Holding;

/// Filler of a cluster, which makes it about 500 bytes: the size that the scenarios assume.
const FILLER: usize = 420;
/// Endpoints of an assignment, which make it about 4.5 KB: the size that the scenarios assume.
const ENDPOINTS: usize = 100;

/// Recognises the resource of P-13 that clients NACK: it is above this size.
pub(super) const LARGE: usize = 2_000;
/// Recognises the valid resources of the same change: they are above this size and up to [`LARGE`].
pub(super) const MARKED: usize = 1_000;

/// One resource; generations of it differ.
pub(super) fn resource(holding: Holding, index: usize, generation: usize) -> Resource {
    let name = resource_name(index);
    let bytes = match holding {
        Holding::Clusters => cluster(&name, generation, FILLER).encode_to_vec(),
        Holding::Assignments => assignment(&name, generation).encode_to_vec(),
    };
    Resource::new(holding.resource_type(), name, &bytes)
}

/// A cluster that the swarm recognises by its size.
pub(super) fn poison(index: usize) -> Resource {
    let name = resource_name(index);
    let bytes = cluster(&name, 0, 2 * LARGE).encode_to_vec();
    Resource::new(ResourceType::CLUSTER, name, &bytes)
}

/// A cluster that is valid, and that the swarm recognises by its size too.
pub(super) fn marked(index: usize) -> Resource {
    let name = resource_name(index);
    let bytes = cluster(&name, 0, (MARKED + LARGE) / 2).encode_to_vec();
    Resource::new(ResourceType::CLUSTER, name, &bytes)
}

/// The message of a cluster; generations of it differ.
pub(super) fn message(index: usize, generation: usize) -> Cluster {
    cluster(&resource_name(index), generation, FILLER)
}

/// The listener `graph`, whose routes lead requests to the clusters in turn: `/service.N/…` to the one with this index.
pub(super) fn graph(routes: usize, clusters: usize) -> [Resource; 2] {
    const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    let manager = HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            route_config_name: "graph".to_owned(),
            config_source: Some(ConfigSource {
                config_source_specifier: Some(ads),
                ..ConfigSource::default()
            }),
        })),
        ..HttpConnectionManager::default()
    };
    let listener = Listener {
        name: "graph".to_owned(),
        api_listener: Some(ApiListener {
            api_listener: Some(Any {
                type_url: MANAGER.to_owned(),
                value: manager.encode_to_vec(),
            }),
        }),
        ..Listener::default()
    };
    let route = |index: usize| Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix(format!("/service.{index}/"))),
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(resource_name(index % clusters))),
            ..RouteAction::default()
        })),
        ..Route::default()
    };
    let config = RouteConfiguration {
        name: "graph".to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: "all".to_owned(),
            domains: vec!["*".to_owned()],
            routes: (0..routes).map(route).collect(),
            ..VirtualHost::default()
        }],
        ..RouteConfiguration::default()
    };
    let resource =
        |resource_type: ResourceType, bytes: &[u8]| Resource::new(resource_type, "graph", bytes);
    [
        resource(ResourceType::LISTENER, &listener.encode_to_vec()),
        resource(ResourceType::ROUTE, &config.encode_to_vec()),
    ]
}

pub(super) fn resource_name(index: usize) -> String {
    format!("resource-{index:06}")
}

/// A cluster whose statistics name has the time of its change, if there was one.
fn cluster(name: &str, generation: usize, filler: usize) -> Cluster {
    let stamp = if generation == 0 { 0 } else { now_micros() };
    let eds = EdsClusterConfig {
        eds_config: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
            ..ConfigSource::default()
        }),
        ..EdsClusterConfig::default()
    };
    Cluster {
        name: name.to_owned(),
        connect_timeout: Some(Duration {
            seconds: 1 + generation as i64,
            nanos: 0,
        }),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(eds),
        alt_stat_name: format!("{stamp:020}{:x>filler$}", ""),
        ..Cluster::default()
    }
}

/// Time of a cluster's last change, in microseconds since 1970; 0 if it never changed.
pub(super) fn stamp(cluster: &[u8]) -> Result<u64, String> {
    let cluster = Cluster::decode(cluster).map_err(|error| error.to_string())?;
    let stamp = cluster
        .alt_stat_name
        .get(..20)
        .and_then(|digits| digits.parse().ok());
    stamp.ok_or_else(|| format!("{} has no stamp", cluster.name))
}

pub(super) fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

fn assignment(name: &str, generation: usize) -> ClusterLoadAssignment {
    let endpoints = (0..ENDPOINTS).map(|index| {
        let address = SocketAddress {
            address: format!("10.123.231.{}", 100 + index),
            port_specifier: Some(PortSpecifier::PortValue(8080)),
            ..SocketAddress::default()
        };
        let endpoint = Endpoint {
            address: Some(Address {
                address: Some(AnyAddress::SocketAddress(address)),
            }),
            hostname: "backend.mesh".to_owned(),
            ..Endpoint::default()
        };
        LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
            load_balancing_weight: Some(UInt32Value {
                value: 1 + generation as u32,
            }),
            ..LbEndpoint::default()
        }
    });
    ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: endpoints.collect(),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_the_sizes_that_the_scenarios_assume() {
        let size = |holding: Holding| resource(holding, 7, 1).value().len();
        assert!(
            (450..550).contains(&size(Holding::Clusters)),
            "{}",
            size(Holding::Clusters)
        );
        assert!(
            (4_000..5_000).contains(&size(Holding::Assignments)),
            "{}",
            size(Holding::Assignments)
        );
    }

    #[test]
    fn only_a_changed_cluster_says_when() {
        let stamp = |generation| stamp(&resource(Holding::Clusters, 7, generation).value());
        assert_eq!(stamp(0), Ok(0));
        assert_ne!(stamp(1), Ok(0));
    }
}
