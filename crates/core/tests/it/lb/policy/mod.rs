//! C-244, C-247 – C-251, C-253: policies, from connectivity states to picks.

mod least_request;
mod pick_first;
mod ring_hash;
mod round_robin;
mod subsetting;
mod weighted;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use oxds_core::lb::Connectivity;
use oxds_core::lb::Headers;
use oxds_core::lb::policy::{
    Children, Pick, PickCall, Policy, PolicyConfig, PolicyEndpoint, PolicyInput, PolicyLocality,
    PolicyUpdate,
};
use oxds_core::time::Instant;

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
    random_hash: 0,
};

/// A call with a hash.
pub(super) fn hashed(hash: u64) -> PickCall<'static> {
    PickCall {
        hash: Some(hash),
        ..CALL
    }
}

/// An endpoint with one address.
pub(super) fn endpoint(address: SocketAddr, weight: u32) -> PolicyEndpoint {
    PolicyEndpoint {
        address,
        additional_addresses: Vec::new(),
        weight,
        hash_key: None,
    }
}

/// Endpoints `10.0.L.N:80`, where L is the locality, each with its weight.
pub(crate) fn locality(number: u8, weight: u32, endpoints: &[u32]) -> PolicyLocality {
    let address = |index| SocketAddr::from(([10, 0, number, index], 80));
    let endpoints = (1..).zip(endpoints);
    let endpoints = endpoints.map(|(index, weight)| endpoint(address(index), *weight));
    PolicyLocality {
        weight,
        endpoints: endpoints.collect(),
    }
}

/// The picks of this many RPCs, by child.
pub(super) fn counts(update: &PolicyUpdate, picks: usize) -> BTreeMap<usize, usize> {
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

/// Builds a policy with the same random numbers in each run.
pub(crate) fn built(config: &PolicyConfig, localities: &[PolicyLocality]) -> Policy {
    Policy::new(config, localities, 7, &mut randoms())
}

/// Input of an update with these states and no weights.
pub(super) fn input(states: &[Connectivity]) -> PolicyInput<'_> {
    PolicyInput {
        now: Instant::EPOCH,
        states,
        weights: &[],
    }
}

pub(crate) fn update(policy: &Policy, states: &[Connectivity]) -> PolicyUpdate {
    policy.update(input(states), &mut randoms())
}

pub(crate) fn pick(update: &PolicyUpdate) -> Pick {
    pick_for(update, &CALL)
}

pub(super) fn pick_for(update: &PolicyUpdate, call: &PickCall<'_>) -> Pick {
    update.picker.pick(call, &InFlight(&[]), &mut randoms())
}

/// The first addresses of the children, by the index of their endpoint.
pub(crate) fn endpoints_of(policy: &Policy) -> Vec<Vec<usize>> {
    let of = |addresses: &[oxds_core::lb::policy::ChildAddress]| {
        addresses.iter().map(|each| each.endpoint).collect()
    };
    policy
        .children()
        .iter()
        .map(|child| of(&child.addresses))
        .collect()
}
