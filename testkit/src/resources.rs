//! The smallest valid resources.

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, config_source::ConfigSourceSpecifier,
};
use oxds_types::Kind;
use oxds_types::discovery::Any;
use prost::Message;

/// A cluster whose endpoints come by ADS, under this name.
#[must_use]
pub fn cluster(name: &str, eds_service_name: &str) -> Any {
    any(&Kind::CLUSTER, &eds_cluster(name, eds_service_name))
}

/// The same, with so many bytes in a field that no client reads.
#[must_use]
pub fn heavy_cluster(name: &str, bytes: usize) -> Any {
    let cluster = Cluster {
        alt_stat_name: "x".repeat(bytes),
        ..eds_cluster(name, "")
    };
    any(&Kind::CLUSTER, &cluster)
}

/// A cluster of a type that gRPC clients must reject (gRFC A27).
#[must_use]
pub fn static_cluster(name: &str) -> Any {
    let cluster = Cluster {
        name: name.to_owned(),
        ..Cluster::default()
    };
    any(&Kind::CLUSTER, &cluster)
}

fn eds_cluster(name: &str, eds_service_name: &str) -> Cluster {
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    let eds = EdsClusterConfig {
        eds_config: Some(ConfigSource {
            config_source_specifier: Some(ads),
            ..ConfigSource::default()
        }),
        service_name: eds_service_name.to_owned(),
    };
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(eds),
        ..Cluster::default()
    }
}

fn any(kind: &Kind, message: &impl Message) -> Any {
    Any {
        type_url: kind.type_url().to_owned(),
        value: message.encode_to_vec().into(),
    }
}
