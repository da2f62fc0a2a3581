//! Cost of a cluster with 10,000 endpoints: counts of allocations and of subchannels.

#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use oxds_core::ads::WatchError;
use oxds_core::lb::policy::PolicyConfig;
use oxds_core::lb::{EndpointHealth, HealthSet};
use oxds_core::resolve::{ClusterConfig, LeafCluster};
use oxds_core::resource::{
    Assignment, Cluster, Discovery, Endpoint, Locality, LocalityId, MetricSelection,
};
use oxds_core::time::Instant;
use tokio::sync::mpsc;

use super::cluster::ClusterDriver;
use super::leaf::LeafContext;
use super::members::Members;
use crate::connection_request::ConnectionRequester;
use crate::epoch::Epoch;
use crate::picker::ReleasedSender;
use crate::pool::Pool;
use crate::security::ChannelSecurity;

const COUNT: u32 = 10_000;
const NOW: Instant = Instant::EPOCH;
const RING_HASH: PolicyConfig = PolicyConfig::RingHash {
    min_ring_size: 1024,
    max_ring_size: 4096,
};
const PICK_FIRST: PolicyConfig = PolicyConfig::PickFirst { shuffle: false };

fn subsetting() -> PolicyConfig {
    PolicyConfig::RandomSubsetting {
        subset_size: 50,
        inner: Arc::new(PolicyConfig::RoundRobin),
    }
}

fn driver(pool: &Pool) -> ClusterDriver {
    let (changes, _) = mpsc::unbounded_channel();
    let (requests, _) = mpsc::unbounded_channel();
    let (released, _) = mpsc::unbounded_channel();
    ClusterDriver::new(
        "c".into(),
        Members::new(pool.clone(), 0, changes, None),
        ConnectionRequester::new(0, requests),
        ReleasedSender::new(0, released),
        Epoch::start(),
    )
}

fn cluster(policy: PolicyConfig) -> Arc<Cluster> {
    Arc::new(Cluster {
        name: "c".into(),
        discovery: Discovery::Eds,
        eds_service_name: "c".into(),
        policy,
        lrs_server: None,
        lrs_metrics: MetricSelection::default(),
        max_requests: 1024,
        outlier: None,
        override_statuses: HealthSet::default(),
        idle_timeout: Duration::from_secs(3600),
        tls: None,
    })
}

fn configure(
    driver: &mut ClusterDriver,
    config: &Result<Arc<ClusterConfig>, WatchError>,
    security: &ChannelSecurity,
) {
    let context = LeafContext {
        loads: None,
        security,
    };
    driver.configure(NOW, config, false, context);
}

fn endpoint(number: u32) -> Endpoint {
    let ip = Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 0).to_bits() + number);
    Endpoint {
        address: SocketAddr::from((ip, 80)),
        additional_addresses: Vec::new(),
        weight: 1,
        hash_key: None,
        hostname: None,
        health: EndpointHealth::Healthy,
    }
}

/// A configuration whose priorities have one locality each, with these endpoints.
fn config(
    cluster: &Arc<Cluster>,
    priorities: &[Vec<u32>],
) -> Result<Arc<ClusterConfig>, WatchError> {
    let locality = |(region, numbers): (usize, &Vec<u32>)| Locality {
        id: Arc::new(LocalityId {
            region: region.to_string(),
            ..LocalityId::default()
        }),
        weight: 1,
        endpoints: numbers.iter().copied().map(endpoint).collect(),
        draining: Vec::new(),
    };
    let priorities = priorities.iter().enumerate();
    let assignment = Assignment {
        name: "c".into(),
        priorities: priorities.map(|one| vec![locality(one)]).collect(),
        drops: Vec::new(),
    };
    let leaf = LeafCluster {
        cluster: Arc::clone(cluster),
        assignment: Some(Arc::new(assignment)),
        note: None,
    };
    Ok(Arc::new(ClusterConfig {
        cluster: Arc::clone(cluster),
        leaves: vec![Arc::new(leaf)],
    }))
}

#[tokio::test]
async fn c243_changed_endpoint_of_10000_allocates_little() {
    let all: Vec<u32> = (0..COUNT).collect();
    let mut replaced = all.clone();
    replaced[5000] = COUNT;
    let removed: Vec<u32> = all.iter().copied().filter(|one| *one != 100).collect();
    for policy in [
        RING_HASH,
        PICK_FIRST,
        PolicyConfig::round_robin_by_locality(),
        subsetting(),
    ] {
        let name = policy.to_string();
        let pool = Pool::new();
        let security = ChannelSecurity::default();
        let cluster = cluster(policy);
        let mut driver = driver(&pool);
        let _handle = driver.handle();
        configure(
            &mut driver,
            &config(&cluster, std::slice::from_ref(&all)),
            &security,
        );
        driver.update_picker(NOW);
        for changed in [&replaced, &removed] {
            let changed = config(&cluster, std::slice::from_ref(changed));
            let allocations = measure(|| {
                configure(&mut driver, &changed, &security);
                driver.update_picker(NOW);
            });
            // 10,000 unchanged endpoints cost no allocation each.
            assert!(allocations.count_total < 400, "{name}: {allocations:?}");
        }
    }
}

#[tokio::test]
async fn c243_unchanged_priority_keeps_its_endpoints() {
    let pool = Pool::new();
    let security = ChannelSecurity::default();
    let cluster = cluster(RING_HASH);
    let mut driver = driver(&pool);
    let _handle = driver.handle();
    let other: Vec<u32> = (100..200).collect();
    let one = config(&cluster, &[(0..10).collect(), other.clone()]);
    configure(&mut driver, &one, &security);
    driver.update_picker(NOW);
    let before = driver.endpoint_tables();
    let next = config(&cluster, &[(1..11).collect(), other]);
    configure(&mut driver, &next, &security);
    driver.update_picker(NOW);
    let after = driver.endpoint_tables();
    assert_eq!((before.len(), after.len()), (2, 2));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
}

#[tokio::test]
async fn c248_start_with_10000_endpoints_connects_few() {
    let all: Vec<u32> = (0..COUNT).collect();
    for (policy, connections) in [(RING_HASH, 0), (PICK_FIRST, 1), (subsetting(), 50)] {
        let name = policy.to_string();
        let pool = Pool::new();
        let security = ChannelSecurity::default();
        let mut driver = driver(&pool);
        let _handle = driver.handle();
        let config = config(&cluster(policy), std::slice::from_ref(&all));
        configure(&mut driver, &config, &security);
        driver.update_picker(NOW);
        assert_eq!(pool.in_use(), connections, "{name}");
    }
}
