//! Resources made from elements of responses, as a relay makes them.

use std::time::Duration;

use oxds_types::discovery::{self, Any};
use oxds_types::{ResourceType, Version};
use prost::Message;

use super::super::{Resource, WireError};

/// A cluster "a" with an unknown field (15,000), which must survive.
const CLUSTER: &[u8] = b"\x0a\x01a\xc0\xa9\x07\x01";

fn any(type_url: &str, value: &[u8]) -> Any {
    Any {
        type_url: type_url.to_owned(),
        value: value.to_vec().into(),
    }
}

fn element(name: &str, value: &[u8]) -> discovery::Resource {
    discovery::Resource {
        name: name.to_owned(),
        version: "7".to_owned(),
        resource: Some(any(ResourceType::CLUSTER.type_url(), value)),
        ..discovery::Resource::default()
    }
}

/// Given an element with name, version, unknown fields and TTL; then bytes, name and TTL are kept, and the version is
/// the hash of the bytes.
#[test]
fn from_wire_keeps_bytes_name_and_ttl() {
    let ttl = discovery::Duration {
        seconds: 5,
        nanos: 0,
    };
    let element = discovery::Resource {
        ttl: Some(ttl),
        ..element("alias", CLUSTER)
    };
    let resource = Resource::from_wire(element).unwrap();
    assert_eq!(resource.resource_type(), &ResourceType::CLUSTER);
    assert_eq!(&**resource.name(), "alias");
    assert_eq!(resource.value(), CLUSTER);
    assert_eq!(resource.version(), Version::of(CLUSTER));
    assert_eq!(resource.ttl(), Some(Duration::from_secs(5)));
}

/// Given SotW elements, bare and in a wrapper without a name; then the name is that of the message.
#[test]
fn from_sotw_wire_reads_the_name_of_the_message() {
    let wrapper = element("", CLUSTER).encode_to_vec();
    let wrapper_url = "type.googleapis.com/envoy.service.discovery.v3.Resource";
    for element in [
        any(ResourceType::CLUSTER.type_url(), CLUSTER),
        any(wrapper_url, &wrapper),
    ] {
        let resource = Resource::from_sotw_wire(element).unwrap();
        assert_eq!((&**resource.name(), &*resource.value()), ("a", CLUSTER));
    }
}

/// Given an EDS cluster; then its reference to the assignment is known, for make-before-break.
#[test]
fn from_wire_reads_references() {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::cluster::v3::cluster::{
        ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
    };
    use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
    use envoy_types::pb::envoy::config::core::v3::{AggregatedConfigSource, ConfigSource};
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource::default());
    let eds_config = Some(ConfigSource {
        config_source_specifier: Some(ads),
        ..ConfigSource::default()
    });
    let cluster = Cluster {
        name: "a".into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config,
            ..EdsClusterConfig::default()
        }),
        ..Cluster::default()
    };
    let resource = Resource::from_wire(element("a", &cluster.encode_to_vec())).unwrap();
    assert!(resource.refers_to(&ResourceType::ENDPOINT, "a"));
}

/// Given a v2 cluster; then it is translated to v3.
#[test]
fn from_wire_translates_v2_to_v3() {
    let element = any("type.googleapis.com/envoy.api.v2.Cluster", b"\x0a\x01a");
    let resource = Resource::from_sotw_wire(element).unwrap();
    assert_eq!(resource.resource_type(), &ResourceType::CLUSTER);
    assert_eq!(
        (&**resource.name(), &*resource.value()),
        ("a", &b"\x0a\x01a"[..])
    );
}

#[test]
fn from_wire_reports_what_is_no_resource() {
    let heartbeat = discovery::Resource {
        resource: None,
        ..element("a", b"")
    };
    let negative = discovery::Resource {
        ttl: Some(discovery::Duration {
            seconds: -1,
            nanos: 0,
        }),
        ..element("a", CLUSTER)
    };
    let untyped = discovery::Resource {
        resource: Some(any("", CLUSTER)),
        ..element("a", CLUSTER)
    };
    let fail = |element| Resource::from_wire(element).unwrap_err();
    assert!(matches!(fail(heartbeat), WireError::MissingBody { .. }));
    assert!(matches!(fail(negative), WireError::InvalidTtl { .. }));
    assert!(matches!(fail(untyped), WireError::MalformedTypeUrl(_)));
    assert!(matches!(fail(element("", b"")), WireError::NoName(_)));
    let malformed = fail(element("", b"\x0a\x05a"));
    assert!(matches!(malformed, WireError::Malformed { .. }));
}
