//! Tests of hash policies together with `ring_hash` (gRFC A42).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use oxds_channel::XdsChannel;
use oxds_channel::testing::{Call, EchoBackend, Script, call, cluster, config};
use oxds_core::lb::policy::PolicyConfig;
use oxds_core::lb::{HashPolicy, HashSource};

use crate::support::{SOON, backends, channel};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Puts a hash ring over these endpoints and a hash policy into use.
fn serve(script: &Script, backends: &[EchoBackend], source: HashSource) {
    let addresses: Vec<_> = backends.iter().map(EchoBackend::address).collect();
    let ring = PolicyConfig::RingHash {
        min_ring_size: 1024,
        max_ring_size: 4096,
    };
    let spec = cluster("one", &[&[("here", 1, &addresses)]], 0).with_policy(ring);
    let policies: Arc<[HashPolicy]> = Arc::new([HashPolicy {
        source,
        terminal: false,
    }]);
    let resources = config(ALL, vec![spec]);
    script.set(resources.map_routes(|forward| forward.hash = Arc::clone(&policies)));
}

async fn call_as(channel: &XdsChannel, user: Option<u32>) -> SocketAddr {
    let header = user.map(|user| ("x-user".parse().unwrap(), HeaderValue::from(user)));
    let request = Call {
        headers: HeaderMap::from_iter(header),
        timeout: Some(SOON),
        ..Call::default()
    };
    call(channel, request).await.unwrap().1.unwrap().address
}

#[tokio::test]
async fn c235_equal_headers_go_to_the_same_endpoint() {
    let backends: [_; 4] = backends().await;
    let (script, channel) = channel();
    let header = HashSource::Header {
        name: "x-user".into(),
        rewrite: None,
    };
    serve(&script, &backends, header);
    let mut used = HashSet::new();
    for user in 0..20 {
        let first = call_as(&channel, Some(user)).await;
        assert_eq!(call_as(&channel, Some(user)).await, first, "{user}");
        used.insert(first);
    }
    // Twenty users hardly share one of four endpoints: 4 · 4⁻²⁰.
    assert!(used.len() > 1, "{used:?}");
}

#[tokio::test]
async fn c235_rpc_without_hash_goes_to_a_random_endpoint() {
    let backends: [_; 2] = backends().await;
    let (script, channel) = channel();
    let header = HashSource::Header {
        name: "x-user".into(),
        rewrite: None,
    };
    serve(&script, &backends, header);
    let mut used = HashSet::new();
    // Each endpoint has about half of the ring: the loop ends after a few calls.
    while used.len() < 2 {
        used.insert(call_as(&channel, None).await);
    }
}

#[tokio::test]
async fn c235_channel_id_is_the_same_for_all_rpcs() {
    let backends: [_; 4] = backends().await;
    let (script, channel) = channel();
    serve(&script, &backends, HashSource::ChannelId);
    let first = call_as(&channel, None).await;
    for user in 0..10 {
        assert_eq!(call_as(&channel, Some(user)).await, first);
    }
}
