//! C-244, C-247 – C-251: policies, from connectivity states to picks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::Connectivity::{self, Connecting, Ready, TransientFailure};
use oxds_core::lb::Headers;
use oxds_core::lb::policy::{
    Children, Pick, PickCall, Policy, PolicyConfig, PolicyEndpoint, PolicyLocality, PolicyUpdate,
};

/// A request without headers.
pub(super) struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }
}

/// Children of which each has as many RPCs under way as its number says.
pub(super) struct InFlight<'a>(pub(super) &'a [u32]);

impl Children for InFlight<'_> {
    fn in_flight(&self, child: usize) -> u32 {
        self.0.get(child).copied().unwrap_or_default()
    }
}

/// A random sequence that is the same in each run (SplitMix64).
pub(super) fn randoms() -> impl FnMut() -> u64 {
    let mut state = 0_u64;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

pub(super) const CALL: PickCall<'static> = PickCall {
    path: "/pkg.Service/Method",
    headers: &NoHeaders,
    hash: None,
};

/// Endpoints `10.0.L.N:80`, where L is the locality, each with its weight.
pub(super) fn locality(number: u8, weight: u32, endpoints: &[u32]) -> PolicyLocality {
    let address = |index| SocketAddr::from(([10, 0, number, index], 80));
    let endpoints = (1..).zip(endpoints).map(|(index, weight)| PolicyEndpoint {
        address: address(index),
        weight: *weight,
    });
    PolicyLocality {
        weight,
        endpoints: endpoints.collect(),
    }
}

/// The picks of this many RPCs, by child.
fn counts(update: &PolicyUpdate, picks: usize) -> BTreeMap<usize, usize> {
    let mut random = randoms();
    let mut counts = BTreeMap::new();
    for _ in 0..picks {
        match update.picker.pick(&CALL, &InFlight(&[]), &mut random) {
            Pick::Child(child) => *counts.entry(child).or_default() += 1,
            other => panic!("{other:?}"),
        }
    }
    counts
}

fn update(policy: &Policy, states: &[Connectivity]) -> PolicyUpdate {
    policy.update(states, &mut randoms())
}

fn pick(update: &PolicyUpdate) -> Pick {
    update.picker.pick(&CALL, &InFlight(&[]), &mut randoms())
}

#[test]
fn c247_round_robin_picks_ready_children_in_turn() {
    let localities = [locality(1, 1, &[1, 1]), locality(2, 9, &[1, 1])];
    let policy = Policy::new(&PolicyConfig::RoundRobin, &localities);
    assert!(policy.is_eager());
    let states = [Ready, TransientFailure, Ready, Connecting];
    let ready = update(&policy, &states);
    assert_eq!(ready.state, Ready);
    // Without wrr_locality the weights of localities do not count.
    assert_eq!(counts(&ready, 100), BTreeMap::from([(0, 50), (2, 50)]));
}

#[test]
fn c247_round_robin_starts_at_a_random_child() {
    let policy = Policy::new(&PolicyConfig::RoundRobin, &[locality(1, 1, &[1; 4])]);
    let first = |random: u64| {
        let update = policy.update(&[Ready; 4], &mut || random);
        pick(&update)
    };
    let firsts: Vec<_> = (0..4).map(first).collect();
    assert_eq!(firsts, [0, 1, 2, 3].map(Pick::Child));
}

#[test]
fn c247_round_robin_fails_only_if_all_children_fail() {
    let policy = Policy::new(&PolicyConfig::RoundRobin, &[locality(1, 1, &[1, 1])]);
    let connecting = update(&policy, &[TransientFailure, Connecting]);
    assert_eq!(connecting.state, Connecting);
    assert_eq!(pick(&connecting), Pick::Queue);
    let failed = update(&policy, &[TransientFailure; 2]);
    assert_eq!(failed.state, TransientFailure);
    assert_eq!(pick(&failed), Pick::Fail);
}

#[test]
fn c244_localities_share_by_weight_of_the_ready_ones() {
    let localities = [
        locality(1, 1, &[1]),
        locality(2, 3, &[1, 1]),
        locality(3, 96, &[1]),
    ];
    let config = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin));
    let policy = Policy::new(&config, &localities);
    let children: Vec<_> = policy.children().iter().map(|c| &c.endpoints[..]).collect();
    assert_eq!(children, [[0], [1], [2], [3]]);
    // given that the heaviest locality has no ready endpoint
    let ready = update(&policy, &[Ready, Ready, Ready, TransientFailure]);
    let counts = counts(&ready, 8_000);
    // then the others get 1/4 and 3/4, and the endpoints of one locality the same
    assert_eq!(counts.values().sum::<usize>(), 8_000);
    assert!(counts[&0].abs_diff(2_000) < 200, "{counts:?}");
    assert!(counts[&1].abs_diff(counts[&2]) <= 1, "{counts:?}");
}

#[test]
fn c244_localities_queue_while_one_connects() {
    let localities = [locality(1, 1, &[1]), locality(2, 1, &[1])];
    let config = PolicyConfig::round_robin_by_locality();
    let policy = Policy::new(&config, &localities);
    let connecting = update(&policy, &[TransientFailure, Connecting]);
    assert_eq!(
        (connecting.state, pick(&connecting)),
        (Connecting, Pick::Queue)
    );
    let failed = update(&policy, &[TransientFailure; 2]);
    assert_eq!(
        (failed.state, pick(&failed)),
        (TransientFailure, Pick::Fail)
    );
    let empty = Policy::new(&config, &[]);
    assert_eq!(update(&empty, &[]).state, TransientFailure);
}
