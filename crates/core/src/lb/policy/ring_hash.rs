//! Ring hash: the child by the hash of the request (gRFC A42, A61, A76).
//!
//! The ring is the one of Envoy and of gRPC C-core: a child has entries in proportion to its weight, and the hash of an
//! entry is the XXH64 of `KEY_NUMBER`. So all clients send equal requests to the same endpoint. Only the endpoints that
//! are asked for are connected.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use super::view::{Pick, PickCall};
use crate::lb::priorities::Connectivity;

/// Maximum size of a ring, whatever the configuration says: gRPC's default limit (gRFC A42).
const RING_SIZE_CAP: u64 = 4096;

/// Hashes on a ring, in ascending order, each with its child.
#[derive(Debug)]
pub(super) struct Ring {
    entries: Box<[(u64, u32)]>,
}

/// A child of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingChild<'a> {
    pub(super) child: u32,
    pub(super) key: RingKey<'a>,
    /// Above zero.
    pub(super) weight: u64,
}

/// Name of a child on a ring.
#[derive(Debug, Clone, Copy)]
pub(super) enum RingKey<'a> {
    Text(&'a str),
    Address(SocketAddr),
}

impl RingKey<'_> {
    fn write(self, to: &mut String) {
        match self {
            Self::Text(text) => to.push_str(text),
            Self::Address(address) => {
                // Writing to a string does not fail.
                let _ = write!(to, "{address}");
            }
        }
    }
}

impl Ring {
    /// Makes the ring of children.
    pub(super) fn new(children: &[RingChild<'_>], min_size: u64, max_size: u64) -> Self {
        let sum: u64 = children.iter().map(|each| each.weight).sum();
        let share = |weight: u64| weight as f64 / sum as f64;
        let shares = children.iter().map(|each| share(each.weight));
        let least = shares.fold(1.0, f64::min);
        let (min_size, max_size) = (min_size.min(RING_SIZE_CAP), max_size.min(RING_SIZE_CAP));
        // As in Envoy and C-core: the size is scaled so that the lightest child has a whole number of entries.
        let scale = ((least * min_size as f64).ceil() / least).min(max_size as f64);
        let mut entries = Vec::with_capacity(scale.ceil() as usize);
        // The sums run over all children, so that rounding errors do not add up.
        let (mut current, mut target) = (0.0, 0.0);
        let mut key = String::new();
        for each in children {
            target += scale * share(each.weight);
            key.clear();
            each.key.write(&mut key);
            key.push('_');
            let name = key.len();
            let mut number = 0_u32;
            while current < target {
                key.truncate(name);
                // Writing to a string does not fail.
                let _ = write!(key, "{number}");
                entries.push((xxh64(key.as_bytes(), 0), each.child));
                number += 1;
                current += 1.0;
            }
        }
        entries.sort_by_key(|(hash, _)| *hash);
        Self {
            entries: entries.into(),
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the children from the first entry whose hash is not below `hash`, around the ring.
    fn children_from(&self, hash: u64) -> impl Iterator<Item = u32> {
        let first = self.entries.partition_point(|(entry, _)| *entry < hash);
        let (before, after) = self.entries.split_at(first);
        after.iter().chain(before).map(|(_, child)| *child)
    }
}

/// Picker of a ring, with the states of the children.
#[derive(Debug)]
pub(super) struct RingHashPicker {
    ring: Arc<Ring>,
    /// Number of the first child.
    start: u32,
    states: Box<[Connectivity]>,
}

impl RingHashPicker {
    pub(super) fn new(ring: Arc<Ring>, start: u32, states: Box<[Connectivity]>) -> Self {
        Self {
            ring,
            start,
            states,
        }
    }

    pub(super) fn pick(&self, call: &PickCall<'_>) -> Pick {
        // gRFC A42: an RPC without a hash gets a random one, once: at its next pick the same endpoint is meant.
        let hash = call.hash.unwrap_or(call.random_hash);
        for child in self.ring.children_from(hash) {
            let child = child as usize;
            // gRFC A61: failed children are skipped; they connect again by themselves.
            match self.states.get(child - self.start as usize) {
                Some(Connectivity::Ready) => return Pick::Child(child),
                Some(Connectivity::Idle) => return Pick::Connect(child),
                Some(Connectivity::Connecting) => return Pick::Queue,
                Some(Connectivity::TransientFailure) | None => {}
            }
        }
        Pick::Fail
    }
}

/// Returns the state of a ring hash over children with these states, and the index of a child that must connect.
pub(super) fn aggregate(states: &[Connectivity]) -> (Connectivity, Option<usize>) {
    let count = |wanted| states.iter().filter(|state| **state == wanted).count();
    let failed = count(Connectivity::TransientFailure);
    let connecting = count(Connectivity::Connecting);
    let idle = states.iter().position(|state| *state == Connectivity::Idle);
    // gRFC A42, A61: the rules in their order. Two failures are enough to fail over to the next priority; one failure
    // of several children counts as connecting.
    let state = if count(Connectivity::Ready) > 0 {
        Connectivity::Ready
    } else if failed >= 2 {
        Connectivity::TransientFailure
    } else if connecting > 0 || (failed == 1 && states.len() > 1) {
        Connectivity::Connecting
    } else if idle.is_some() {
        Connectivity::Idle
    } else {
        Connectivity::TransientFailure
    };
    // gRFC A61: without picks, which a failed priority does not get, the policy itself tries its children one after the
    // other.
    let is_stuck = matches!(
        state,
        Connectivity::Connecting | Connectivity::TransientFailure
    );
    (state, idle.filter(|_| is_stuck && connecting == 0))
}
