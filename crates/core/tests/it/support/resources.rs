//! Clusters that the client machine accepts and rejects.

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, config_source::ConfigSourceSpecifier,
};
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use prost::Message;

pub(crate) fn any(resource_type: &ResourceType, message: &impl Message) -> Any {
    Any {
        type_url: resource_type.type_url().to_owned(),
        value: Bytes::from(message.encode_to_vec()),
    }
}

/// A valid cluster; `service` makes contents differ.
pub(crate) fn cluster(name: &str, service: &str) -> Any {
    let ads = ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    };
    let cluster = Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads),
            service_name: service.to_owned(),
        }),
        ..Cluster::default()
    };
    any(&ResourceType::CLUSTER, &cluster)
}

/// An invalid cluster: it has no source of endpoints.
pub(crate) fn bad_cluster(name: &str) -> Any {
    let cluster = Cluster {
        name: name.to_owned(),
        ..Cluster::default()
    };
    any(&ResourceType::CLUSTER, &cluster)
}
