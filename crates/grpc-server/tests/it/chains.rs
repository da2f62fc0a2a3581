//! Listeners with thousands of filter chains.

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::google::protobuf::UInt32Value;
use oxds_grpc_server::ServingMode;
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use prost::Message as _;

use crate::tls::{Mesh, mutual};
use crate::world::{ALL, World, inline, listener, rds, resource, routes};

const CHAINS: u16 = 10_000;

/// A listener with 10,000 chains over mTLS, each with a certificate of another name, for clients of a network of their
/// own. The last one is for clients of this machine.
fn many(world: &World, last_name: &str) -> Any {
    let yaml = mutual(&rds("r"), "").replace(
        "instance_name: mesh }",
        "instance_name: mesh, certificate_name: NAME }",
    );
    let mut any = resource(&listener(world.address, &yaml));
    let mut listener = Listener::decode(&*any.value).unwrap();
    let encoded = listener
        .default_filter_chain
        .take()
        .unwrap()
        .encode_to_vec();
    let place = encoded
        .windows(4)
        .rposition(|part| part == b"NAME")
        .unwrap();
    let chains = (0..CHAINS).map(|index| {
        // Names of the same length.
        let mut encoded = encoded.clone();
        let [high, low] = index.to_be_bytes().map(|byte| format!("{byte:02x}"));
        encoded[place..place + 4].copy_from_slice([high, low].concat().as_bytes());
        let mut chain = FilterChain::decode(&*encoded).unwrap();
        let [high, low] = index.to_be_bytes();
        let network = if index == CHAINS - 1 {
            "127.0.0.0".to_owned()
        } else {
            format!("10.{high}.{low}.0")
        };
        chain.name = if index == CHAINS - 1 {
            last_name.to_owned()
        } else {
            index.to_string()
        };
        chain.filter_chain_match = Some(FilterChainMatch {
            source_prefix_ranges: vec![CidrRange {
                address_prefix: network,
                prefix_len: Some(UInt32Value { value: 24 }),
            }],
            ..FilterChainMatch::default()
        });
        chain
    });
    listener.filter_chains = chains.collect();
    any.value = listener.encode_to_vec().into();
    any
}

/// given a listener with 10,000 chains / then it serves, an update of it is for new connections, and an update of the
/// routes is for all.
#[tokio::test]
async fn c259_ten_thousand_chains_are_served_and_updated() {
    let mesh = Mesh::new();
    let mut world = mesh.world().await;
    let (first, second) = (many(&world, "a"), many(&world, "b"));
    world.respond(&ResourceType::LISTENER, vec![first]);
    world.send_routes(&[routes("r", ALL)]).await;
    assert_eq!(world.mode().await, ServingMode::Serving);
    let client = mesh.issue(&["a"]);
    let mut old = mesh.connect(&world, Some(&client)).await.unwrap();
    old.call("Call").await.unwrap();
    world.respond(&ResourceType::LISTENER, vec![second]);
    world.until(|status| status.generation == 2).await;
    old.goes_away().await;
    let mut new = mesh.connect(&world, Some(&client)).await.unwrap();
    new.call("Call").await.unwrap();
    // A chain in the place of all of them.
    world.send_listener(&mutual(&inline(ALL), ""));
    world.until(|status| status.generation == 3).await;
    new.goes_away().await;
    let mut new = mesh.connect(&world, Some(&client)).await.unwrap();
    new.call("Call").await.unwrap();
    world.same_mode();
}
