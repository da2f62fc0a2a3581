//! Tests that endpoints that are read from their bytes are those of the decoder.

#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::core::v3::SocketAddress;
use envoy_types::pb::envoy::config::core::v3::address::Address as AnyAddress;
use envoy_types::pb::envoy::config::endpoint::v3::Endpoint as EndpointProto;
use envoy_types::pb::google::protobuf::UInt32Value;
use proptest::prelude::*;

use super::*;

/// Reads an endpoint by decoding it.
fn decoded(encoded: &[u8]) -> Option<(Option<EndpointHealth>, Endpoint)> {
    let proto = LbEndpoint::decode(encoded).ok()?;
    let health = health(proto.health_status);
    let endpoint = Endpoint::from_proto(&proto, health, &mut Addresses::default()).ok()?;
    Some((health, endpoint))
}

fn common() -> LbEndpoint {
    let socket = SocketAddress {
        address: "192.0.2.1".to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(80)),
        ..SocketAddress::default()
    };
    let endpoint = EndpointProto {
        address: Some(Address {
            address: Some(AnyAddress::SocketAddress(socket)),
        }),
        hostname: "a.example".to_owned(),
        ..EndpointProto::default()
    };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        health_status: HealthStatus::Healthy.into(),
        load_balancing_weight: Some(UInt32Value { value: 3 }),
        ..LbEndpoint::default()
    }
}

#[test]
fn c217_common_endpoint_is_read_from_its_bytes() {
    let mut proto = common();
    let (health, endpoint) = Endpoint::from_common(&proto.encode_to_vec()).unwrap();
    assert_eq!(health, Some(EndpointHealth::Healthy));
    assert_eq!(endpoint.address.to_string(), "192.0.2.1:80");
    assert_eq!(
        (endpoint.weight, endpoint.hostname.as_deref()),
        (3, Some("a.example"))
    );
    // gRFC A76: metadata may have a hash key.
    proto.metadata = Some(Metadata::default());
    assert_eq!(Endpoint::from_common(&proto.encode_to_vec()), None);
}

proptest! {
    /// Given an endpoint with changed bytes, when it is read from them, then the result is that of the decoder, or the
    /// decoder reads it.
    #[test]
    fn c211_endpoints_read_from_bytes_are_those_of_the_decoder(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 0..4),
    ) {
        let mut encoded = common().encode_to_vec();
        for (index, byte, change) in changes {
            let index = index.index(encoded.len());
            match change {
                0 => encoded[index] = byte,
                1 => encoded.insert(index, byte),
                _ => encoded.truncate(index.max(1)),
            }
        }
        if let Some(read) = Endpoint::from_common(&encoded) {
            prop_assert_eq!(Some(read), decoded(&encoded));
        }
    }

    #[test]
    fn c210_endpoints_with_small_fields_are_read_as_decoded(
        status in 0..8_i32,
        weight in prop::option::of(0..3_u32),
        port in 65_530..65_540_u32,
        address in prop::sample::select(vec!["192.0.2.1", "2001:db8::1", "fe80::1%2", "a.example", ""]),
        hostname in prop::sample::select(vec!["", "b.example"]),
        protocol in 0..2_i32,
    ) {
        let mut proto = common();
        proto.health_status = status;
        proto.load_balancing_weight = weight.map(|value| UInt32Value { value });
        proto.host_identifier = Some(HostIdentifier::Endpoint(EndpointProto {
            hostname: hostname.to_owned(),
            address: Some(Address {
                address: Some(AnyAddress::SocketAddress(SocketAddress {
                    protocol,
                    address: address.to_owned(),
                    port_specifier: Some(PortSpecifier::PortValue(port)),
                    ..SocketAddress::default()
                })),
            }),
            ..EndpointProto::default()
        }));
        let encoded = proto.encode_to_vec();
        let expected = decoded(&encoded);
        // A zone is left to the decoder.
        let read = Endpoint::from_common(&encoded);
        let is_common = expected.is_some() && !address.contains('%');
        prop_assert_eq!(read, expected.filter(|_| is_common));
    }
}
