//! The measured process: picks of one policy in a loop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::roles::MeasuredPolicy;
use oxds_core::lb::policy::{
    Children, EndpointWeight, Pick, PickCall, Policy, PolicyConfig, PolicyEndpoint, PolicyInput,
    PolicyLocality, WeightedRoundRobinConfig,
};
use oxds_core::lb::{Connectivity, Headers};
use oxds_types::orca::OrcaLoadReport;

/// Returns the configuration of a policy.
fn config(policy: MeasuredPolicy) -> PolicyConfig {
    match policy {
        MeasuredPolicy::PickFirst => PolicyConfig::PickFirst { shuffle: false },
        MeasuredPolicy::RoundRobin => PolicyConfig::RoundRobin,
        MeasuredPolicy::RingHash => PolicyConfig::RingHash {
            min_ring_size: 1024,
            max_ring_size: 4096,
        },
        MeasuredPolicy::LeastRequest => PolicyConfig::LeastRequest { choice_count: 2 },
        MeasuredPolicy::WeightedRoundRobin => {
            PolicyConfig::WeightedRoundRobin(Arc::new(WeightedRoundRobinConfig {
                blackout_period: Duration::ZERO,
                ..WeightedRoundRobinConfig::default()
            }))
        }
    }
}

/// RPCs without headers.
struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> Option<std::borrow::Cow<'_, str>> {
        None
    }
}

/// Endpoints with an RPC under way here and there.
struct Busy;

impl Children for Busy {
    fn in_flight(&self, child: usize) -> u32 {
        (child % 3) as u32
    }
}

/// Returns the nanoseconds of one pick.
pub(crate) fn measure(policy: MeasuredPolicy, endpoints: usize, picks: u32) -> Result<f64, String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // SplitMix64 in short: numbers that no policy can foresee, at nearly no cost.
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ (state >> 29)
    };
    let config = config(policy);
    let all = (0..endpoints).map(endpoint).collect();
    let localities = [PolicyLocality {
        weight: 1,
        endpoints: all,
    }];
    let built = Policy::new(&config, &localities, 1, &mut random);
    let now = oxds_core::time::Instant::from_epoch(Duration::from_secs(60));
    let weights: Vec<_> = match built.weights() {
        Some(config) => (0..endpoints)
            .map(|index| weight(index, now, config))
            .collect(),
        None => Vec::new(),
    };
    let states = vec![Connectivity::Ready; built.children().len()];
    let input = PolicyInput {
        now,
        states: &states,
        weights: &weights,
    };
    let picker = built.update(input, &mut random).picker;
    let hashes: [u64; 1_024] = std::array::from_fn(|_| random());
    let (start, mut chosen) = (Instant::now(), 0);
    for pick in 0..picks as usize {
        let call = PickCall {
            path: "/bench.Echo/Unary",
            headers: &NoHeaders,
            hash: Some(hashes[pick % hashes.len()]),
            random_hash: 0,
        };
        match picker.pick(&call, &Busy, &mut random) {
            Pick::Child(child) => chosen ^= child,
            other => return Err(format!("{}: {other:?}", policy.name())),
        }
    }
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(picks);
    std::hint::black_box(chosen);
    Ok(nanos)
}

fn endpoint(index: usize) -> PolicyEndpoint {
    let address = Ipv4Addr::from_bits(0x0a00_0001 + index as u32);
    PolicyEndpoint {
        address: SocketAddr::from((address, 443)),
        additional_addresses: Vec::new(),
        weight: 1,
        hash_key: None,
    }
}

/// A weight that differs from the neighbours'.
fn weight(
    index: usize,
    now: oxds_core::time::Instant,
    config: &WeightedRoundRobinConfig,
) -> Arc<EndpointWeight> {
    let weight = EndpointWeight::default();
    let report = OrcaLoadReport {
        rps_fractional: 100.0,
        application_utilization: 0.1 + (index % 7) as f64 / 10.0,
        ..OrcaLoadReport::default()
    };
    weight.handle_report(now, &report, config);
    Arc::new(weight)
}
