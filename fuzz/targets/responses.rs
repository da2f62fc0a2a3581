//! Any bytes as responses of a control plane, over gRPC and REST, to a client that watches resources of each type: it
//! answers each with an ACK or a NACK, and never panics.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use oxds_core::ads::{AdsTransmit, AuthorityId, Client, ClientConfig, Server, ServerId};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::codec::{response_from_json, response_to_json};
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse, Node};
use prost::Message as _;

mod wire;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    wire::mutate(data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Some((variant, bytes)) = bytes.split_first() else {
        return;
    };
    let (protocol, rest) = match variant % 3 {
        0 => (Protocol::Sotw, false),
        1 => (Protocol::Delta, false),
        _ => (Protocol::Sotw, true),
    };
    let mut server = Server::new("cp:18000");
    server.protocol = protocol;
    let mut client = Client::new(ClientConfig::with_server(server, Node::default()));
    for (resource_type, name) in [
        (ResourceType::LISTENER, "a"),
        (ResourceType::ROUTE, "a"),
        (ResourceType::CLUSTER, "a"),
        (ResourceType::ENDPOINT, "a"),
        (ResourceType::SECRET, "a"),
    ] {
        client.watch(AuthorityId::default(), &resource_type, &Arc::from(name));
    }
    if protocol == Protocol::Delta {
        client.watch(
            AuthorityId::default(),
            &ResourceType::CLUSTER,
            &Arc::from("*"),
        );
    }
    let mut now = Instant::EPOCH;
    drain(&mut client, now);
    for message in wire::elements(bytes) {
        now = now + Duration::from_secs(1);
        client.handle_timeout(now);
        let id = ServerId::default();
        if rest {
            let Ok(response) = response_from_json(message) else {
                continue;
            };
            let _ = response_to_json(&response);
            client.handle_response(now, id, response);
        } else if protocol == Protocol::Sotw {
            let Ok(response) = DiscoveryResponse::decode(message) else {
                continue;
            };
            let _ = response_to_json(&response);
            client.handle_response(now, id, response);
        } else {
            let Ok(response) = DeltaDiscoveryResponse::decode(message) else {
                continue;
            };
            client.handle_delta_response(now, id, response);
        }
        drain(&mut client, now);
    }
});

fn drain(client: &mut Client, now: Instant) {
    for transmits in 0.. {
        assert!(transmits < 1_000, "endless requests");
        match client.poll_transmit(now) {
            Some((id, AdsTransmit::Open)) => client.handle_opened(id),
            Some(_) => {}
            None => break,
        }
    }
    while client.poll_event().is_some() {}
}
