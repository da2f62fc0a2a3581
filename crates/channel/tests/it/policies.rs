//! Tests of load-balancing policies over real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use oxds_channel::policy::{
    CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, Pick, PickCall, SharedPolicy,
};
use oxds_channel::testing::{Call, ClusterSpec, EchoBackend, LocalitySpec, call, cluster, config};
use oxds_channel::{Connectivity, XdsChannel};
use oxds_core::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};
use tonic::Code;

use crate::support::{backends, call_once, channel, eventually, ready, retry_policy, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

const RING_HASH: PolicyConfig = PolicyConfig::RingHash {
    min_ring_size: 1024,
    max_ring_size: 4096,
};

const PICK_FIRST: PolicyConfig = PolicyConfig::PickFirst { shuffle: false };

/// A cluster of one locality with this policy.
fn one(endpoints: &[SocketAddr], policy: PolicyConfig) -> ClusterSpec {
    cluster("one", &[&[("here", 1, endpoints)]], 0).with_policy(policy)
}

fn connectivity(channel: &XdsChannel) -> Connectivity {
    channel.status().clusters[0].connectivity
}

fn accepted(backends: &[EchoBackend]) -> u64 {
    backends.iter().map(EchoBackend::accepted).sum()
}

#[tokio::test]
async fn c248_ring_hash_connects_only_endpoints_that_are_picked() {
    let backends: [EchoBackend; 8] = backends().await;
    let addresses: Vec<_> = backends.iter().map(EchoBackend::address).collect();
    let (script, channel) = channel();
    script.set(config(ALL, vec![one(&addresses, RING_HASH)]));
    eventually(|| {
        channel
            .status()
            .clusters
            .first()
            .is_some_and(|cluster| cluster.priority.is_some())
    })
    .await;
    // given that no RPC was made, nothing is connected
    assert_eq!(connectivity(&channel), Connectivity::Idle);
    assert_eq!(accepted(&backends), 0);
    let status = &channel.status().clusters[0];
    assert_eq!(status.policy.as_deref(), Some("ring_hash"));
    assert_eq!(status.ring_size, Some(1024));
    // when one RPC is made
    let picked = call_once(&channel).await.unwrap();
    // then its endpoint is connected and no other
    assert!(addresses.contains(&picked));
    assert_eq!(accepted(&backends), 1);
    assert_eq!(connectivity(&channel), Connectivity::Ready);
    // and RPCs without a hash go to all endpoints in time
    let mut used = std::collections::HashSet::new();
    while used.len() < 8 {
        used.insert(call_once(&channel).await.unwrap());
    }
    assert_eq!(accepted(&backends), 8);
}

#[tokio::test]
async fn c248_ring_hash_skips_failed_endpoints() {
    let [a, b, c] = backends().await;
    a.kill();
    b.kill();
    let addresses = [a.address(), b.address(), c.address()];
    let (script, channel) = channel();
    script.set(config(ALL, vec![one(&addresses, RING_HASH)]));
    for _ in 0..20 {
        assert_eq!(call_once(&channel).await.unwrap(), c.address());
    }
    // and fails only when nothing is left
    c.kill();
    eventually(|| connectivity(&channel) == Connectivity::TransientFailure).await;
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

#[tokio::test]
async fn c248_failed_ring_hash_fails_over_and_recovers_without_rpcs() {
    let [a, b, second] = backends().await;
    a.kill();
    b.kill();
    let (script, channel) = channel();
    let first = [a.address(), b.address()];
    let second_only = [second.address()];
    let first_level = [("x", 1, &first[..])];
    let second_level = [("y", 1, &second_only[..])];
    let both = cluster("one", &[&first_level, &second_level], 0).with_policy(RING_HASH);
    script.set(config(ALL, vec![both]));
    // The first RPC connects an endpoint; the policy itself tries the other.
    assert_eq!(call_once(&channel).await.unwrap(), second.address());
    assert_eq!(channel.status().clusters[0].priority, Some(1));
    // when an endpoint of the first priority starts, no RPC is necessary to find it
    b.restart().await.unwrap();
    eventually(|| channel.status().clusters[0].priority == Some(0)).await;
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
}

#[tokio::test]
async fn c249_least_request_avoids_the_busy_endpoint() {
    let [slow, fast] = backends().await;
    // given an endpoint that never responds in time
    slow.set_delay(Duration::from_secs(3600));
    let (script, channel) = channel();
    let policy = PolicyConfig::LeastRequest { choice_count: 10 };
    let addresses = [slow.address(), fast.address()];
    script.set(config(ALL, vec![one(&addresses, policy)]));
    ready(&channel, 2).await;
    // when 200 RPCs are made, each after the one before has a response or hangs
    let answered = Arc::new(AtomicU64::new(0));
    let mut calls = Vec::new();
    for number in 1..=200 {
        let (channel, answered) = (channel.clone(), Arc::clone(&answered));
        let count = Arc::clone(&answered);
        calls.push(tokio::spawn(async move {
            if call_once(&channel).await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }));
        eventually(|| answered.load(Ordering::Relaxed) + slow.calls() == number).await;
    }
    // then few hang: one goes to the busy endpoint only if all of its ten draws do
    assert!(slow.calls() <= 5, "{}", slow.calls());
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn c251_pick_first_uses_one_endpoint() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let addresses = [a.address(), b.address()];
    script.set(config(ALL, vec![one(&addresses, PICK_FIRST)]));
    assert_eq!(spread(&channel, 20).await[&a.address()], 20);
    assert_eq!((a.accepted(), b.accepted()), (1, 0));
    // when the connection is lost, the policy is idle until the next RPC
    a.kill();
    eventually(|| connectivity(&channel) == Connectivity::Idle).await;
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
    // and it stays with the endpoint that works
    a.restart().await.unwrap();
    assert_eq!(spread(&channel, 20).await[&b.address()], 20);
    assert_eq!(b.accepted(), 1);
}

#[tokio::test]
async fn c251_pick_first_keeps_its_connection_when_the_list_changes() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(config(ALL, vec![one(&[b.address()], PICK_FIRST)]));
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
    script.set(config(
        ALL,
        vec![one(&[a.address(), b.address()], PICK_FIRST)],
    ));
    eventually(|| channel.status().clusters[0].endpoints.len() == 2).await;
    assert_eq!(spread(&channel, 20).await[&b.address()], 20);
    assert_eq!((a.accepted(), b.accepted()), (0, 1));
}

#[tokio::test]
async fn c251_pick_first_fails_with_the_last_error() {
    let [a, b] = backends().await;
    a.kill();
    b.kill();
    let (script, channel) = channel();
    let addresses = [a.address(), b.address()];
    script.set(config(ALL, vec![one(&addresses, PICK_FIRST)]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().contains(&b.address().to_string()),
        "{status}"
    );
    // and it recovers by itself
    a.restart().await.unwrap();
    eventually(|| connectivity(&channel) == Connectivity::Ready).await;
    assert_eq!(call_once(&channel).await.unwrap(), a.address());
}

#[tokio::test]
async fn a61_endpoint_is_reached_by_its_additional_address() {
    let [gone, there, other] = backends().await;
    gone.kill();
    let (script, channel) = channel();
    let policy = PolicyConfig::round_robin_by_locality();
    let (gone_address, there_address) = (gone.address(), there.address());
    let cluster = one(&[gone_address, other.address()], policy).map_endpoints(|endpoint| {
        if endpoint.address == gone_address {
            endpoint.additional_addresses = vec![there_address];
        }
    });
    script.set(config(ALL, vec![cluster]));
    ready(&channel, 2).await;
    let counts = spread(&channel, 20).await;
    assert_eq!(counts[&there_address], 10);
    assert_eq!(counts[&other.address()], 10);
    // The two addresses are one endpoint.
    assert_eq!(channel.status().clusters[0].endpoints.len(), 2);
}

/// Sends this report at the end of each RPC.
fn report(backend: &EchoBackend, base64: &'static str) {
    let name = HeaderName::from_static("endpoint-load-metrics-bin");
    let value = HeaderValue::from_static(base64);
    backend.set_trailers(HeaderMap::from_iter([(name, value)]));
}

#[tokio::test]
async fn c250_traffic_follows_the_reported_weights() {
    let [a, b] = backends().await;
    // given reports with application_utilization 1.0, and 100 and 300 requests per second
    report(&a, "MQAAAAAAAFlASQAAAAAAAPA/");
    report(&b, "MQAAAAAAwHJASQAAAAAAAPA/");
    let (script, channel) = channel();
    let policy = PolicyConfig::WeightedRoundRobin(Arc::new(WeightedRoundRobinConfig {
        blackout_period: Duration::ZERO,
        weight_update_period: Duration::from_millis(100),
        ..WeightedRoundRobinConfig::default()
    }));
    script.set(config(ALL, vec![one(&[a.address(), b.address()], policy)]));
    ready(&channel, 2).await;
    spread(&channel, 10).await;
    // when the weights are known
    let weights = || {
        let endpoints = channel.status().clusters.remove(0).endpoints;
        endpoints
            .iter()
            .map(|endpoint| endpoint.weight)
            .collect::<Vec<_>>()
    };
    eventually(|| weights() == [Some(21_845), Some(65_535)]).await;
    // then they decide
    let counts = spread(&channel, 400).await;
    assert!(counts[&a.address()].abs_diff(100) < 20, "{counts:?}");
}

#[tokio::test]
async fn c253_random_subsetting_connects_only_the_subset() {
    let backends: [EchoBackend; 6] = backends().await;
    let addresses: Vec<_> = backends.iter().map(EchoBackend::address).collect();
    let (script, channel) = channel();
    let policy = PolicyConfig::RandomSubsetting {
        subset_size: 2,
        inner: Arc::new(PolicyConfig::RoundRobin),
    };
    script.set(config(ALL, vec![one(&addresses, policy)]));
    ready(&channel, 2).await;
    let counts = spread(&channel, 40).await;
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert_eq!(accepted(&backends), 2);
}

/// A policy of the program: the first endpoint gets every call, and headers.
#[derive(Debug)]
struct WithHeaders;

impl CustomPolicy for WithHeaders {
    fn name(&self) -> &str {
        "with headers"
    }

    fn update(&self, endpoints: &[CustomEndpoint<'_>]) -> CustomUpdate {
        CustomUpdate {
            state: endpoints[0].state,
            picker: Box::new(Self),
        }
    }
}

impl CustomPicker for WithHeaders {
    fn pick(&self, _: &PickCall<'_>, _: &mut dyn FnMut() -> u64) -> Pick {
        Pick::Child(0)
    }

    fn add_headers(&self, call: &PickCall<'_>, index: usize, add: &mut dyn FnMut(&str, &str)) {
        add("x-reason", &format!("{} at {index}", call.path));
        add("x-reason", "again");
        // Neither is sent: the first is not HTTP, and the second belongs to the protocol.
        add("x reason", "space");
        add("grpc-timeout", "1n");
    }
}

#[tokio::test]
async fn c200_policy_of_the_program_adds_headers() {
    let backends: [EchoBackend; 2] = backends().await;
    let (script, channel) = channel();
    let policy = PolicyConfig::Custom(SharedPolicy::new(WithHeaders));
    // Inside `wrr_locality` the endpoint has another number than in its locality.
    let policy = PolicyConfig::WrrLocality(policy.into());
    let [away, here] = backends.each_ref().map(EchoBackend::address);
    backends[0].kill();
    let localities: [LocalitySpec<'_>; 2] = [("away", 1, &[away]), ("here", 1, &[here])];
    let spec = cluster("one", &[&localities], 0).with_policy(policy);
    let retry = retry_policy(2, Duration::from_millis(1), Duration::from_millis(10));
    let resources = config(ALL, vec![spec]);
    script.set(resources.map_routes(|forward| forward.retry = Some(Arc::clone(&retry))));
    for failures in [0, 1] {
        // A second attempt has the headers of its own pick only.
        backends[1].fail_next(failures, 14, HeaderMap::new());
        let keep = (
            HeaderName::from_static("x-keep"),
            HeaderValue::from_static(""),
        );
        let request = Call {
            path: "/shop.Cart/Get",
            headers: HeaderMap::from_iter([keep]),
            ..Call::default()
        };
        let (_, picked) = call(&channel, request).await.unwrap();
        assert_eq!(picked.unwrap().address, here);
        let seen = backends[1].request_headers();
        let reasons: Vec<_> = seen.get_all("x-reason").iter().collect();
        assert_eq!(reasons, ["/shop.Cart/Get at 0", "again"]);
        assert!(!seen.contains_key("grpc-timeout"), "{seen:?}");
    }
}
