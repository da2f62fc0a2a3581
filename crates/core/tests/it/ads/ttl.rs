//! C-279: resources that expire without heartbeats.

use std::time::Duration;

use oxds_core::ads::{CacheState, ClientConfig, Protocol, Server, ServerId};
use oxds_types::ResourceType;
use oxds_types::discovery::{self, Any, DeltaDiscoveryResponse, Node, Resource as Wrapper};
use prost::Message;

use super::{Played, cluster};

const SECOND: Duration = Duration::from_secs(1);

fn played(protocol: Protocol, resource_ttl: bool) -> Played {
    let server = Server {
        protocol,
        ..Server::new("cp:18000")
    };
    let mut config = ClientConfig::with_server(server, Node::default());
    config.resource_ttl = resource_ttl;
    let mut played = Played::of(config);
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    while played.transmit().is_some() {}
    played
}

/// Cluster `a` with a TTL; without a body, a heartbeat.
fn mortal(body: Option<Any>, ttl: Option<i64>) -> Wrapper {
    Wrapper {
        name: "a".to_owned(),
        version: "1".to_owned(),
        resource: body,
        ttl: ttl.map(|seconds| discovery::Duration { seconds, nanos: 0 }),
        ..Wrapper::default()
    }
}

fn send(played: &mut Played, protocol: Protocol, wrapper: Wrapper) {
    if protocol == Protocol::Sotw {
        let wrapped = Any {
            type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource".to_owned(),
            value: wrapper.encode_to_vec().into(),
        };
        return played.respond(&ResourceType::CLUSTER, "v1", "n", vec![wrapped]);
    }
    let response = DeltaDiscoveryResponse {
        resources: vec![wrapper],
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        nonce: "n".to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let (now, server) = (played.now, ServerId::default());
    played.client.handle_delta_response(now, server, response);
}

/// Given a resource with a TTL of 10 s. A heartbeat in time gives it another 10 s. Without one, the resource expires.
/// When it is sent again, then it is cached again.
#[test]
fn c279_heartbeats_keep_a_resource_with_ttl() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut played = played(protocol, true);
        let whole = || mortal(Some(cluster("a", "")), Some(10));
        send(&mut played, protocol, whole());
        assert_eq!(played.events(), ["a: changed"]);
        for _ in 0..3 {
            played.wait(9 * SECOND);
            send(&mut played, protocol, mortal(None, Some(10)));
        }
        // The complete resource restarts the TTL, too.
        played.wait(9 * SECOND);
        send(&mut played, protocol, whole());
        played.wait(9 * SECOND);
        assert!(played.events().is_empty(), "{protocol:?}");
        while let Some(transmit) = played.transmit() {
            assert!(!format!("{transmit:?}").contains("error_detail: Some"));
        }

        assert_eq!(played.client.poll_timeout(), Some(played.now + SECOND));
        played.wait(SECOND);
        let events = played.events();
        assert!(
            events[0].starts_with("a: error: ") && events[0].contains("TTL has ended"),
            "{events:?}"
        );
        let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
        assert_eq!(cached.state, CacheState::DoesNotExist);
        send(&mut played, protocol, whole());
        assert_eq!(played.events(), ["a: changed"]);
    }
}

#[test]
fn c279_resource_without_ttl_does_not_expire() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut played = played(protocol, true);
        send(
            &mut played,
            protocol,
            mortal(Some(cluster("a", "")), Some(10)),
        );
        send(&mut played, protocol, mortal(Some(cluster("a", "")), None));
        assert_eq!(played.client.poll_timeout(), None, "{protocol:?}");
    }
}

/// gRPC ignores TTLs.
#[test]
fn c83_c279_ttl_is_ignored_unless_configured() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut played = played(protocol, false);
        send(
            &mut played,
            protocol,
            mortal(Some(cluster("a", "")), Some(1)),
        );
        assert_eq!(played.events(), ["a: changed"]);
        assert_eq!(played.client.poll_timeout(), None);
        played.wait(100 * SECOND);
        assert!(played.events().is_empty());
    }
}

/// Given a resource with a TTL of 10 s / a heartbeat with 20 s replaces it / without the option, no TTL is known.
#[test]
fn c279_cached_resource_shows_the_last_ttl_of_its_server() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let ttl = |played: &Played| {
            let cached = played.client.cached(&ResourceType::CLUSTER, "a");
            cached.and_then(|cached| cached.ttl)
        };
        let mut with = played(protocol, true);
        send(
            &mut with,
            protocol,
            mortal(Some(cluster("a", "s")), Some(10)),
        );
        assert_eq!(ttl(&with), Some(10 * SECOND));
        send(&mut with, protocol, mortal(None, Some(20)));
        assert_eq!(ttl(&with), Some(20 * SECOND));
        send(&mut with, protocol, mortal(None, None));
        assert_eq!(ttl(&with), None);
        let mut without = played(protocol, false);
        send(
            &mut without,
            protocol,
            mortal(Some(cluster("a", "s")), Some(10)),
        );
        assert_eq!(ttl(&without), None);
    }
}
