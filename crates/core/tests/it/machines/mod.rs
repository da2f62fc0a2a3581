//! The client machine of this crate against its server machine, over a link that delays and breaks.
//!
//! The property: once the link heals and time passes, the client has what the server has of each watched resource. It
//! watches single names, and over delta all clusters and a glob collection of assignments. Some resources have a TTL,
//! and expire unless the server confirms them. `found` keeps the sequences that the property found.

mod found;
pub(crate) mod fuzz;
mod pair;

use std::time::Duration;

use oxds_core::snapshot::Protocol;
use oxds_types::ApiVersion;
use proptest::prelude::*;

use self::pair::Pair;
use crate::support::cases::{fixed_cases, random_cases};

/// One operation. Numbers select one of four names, or a content; to watch, [`WHOLE`] selects all names.
#[derive(Debug, Clone)]
enum Op {
    Cluster(usize, Option<usize>),
    Assignment(usize, Option<usize>),
    Watch(bool, usize),
    Unwatch(bool, usize),
    /// Unwatched, and watched again: before a request is written, or while it is in flight.
    Rewatch(bool, usize, bool),
    Pass(u64),
    Break,
    Stall,
}

/// The wildcard of clusters, or the glob collection of all assignments.
const WHOLE: usize = 4;

fn op() -> impl Strategy<Value = Op> {
    let content = || prop_oneof![1 => Just(None), 4 => (0..4usize).prop_map(Some)];
    prop_oneof![
        4 => (0..4usize, content()).prop_map(|(name, content)| Op::Cluster(name, content)),
        3 => (0..4usize, content()).prop_map(|(name, content)| Op::Assignment(name, content)),
        5 => (prop::bool::ANY, 0..=WHOLE).prop_map(|(is_cluster, name)| Op::Watch(is_cluster, name)),
        3 => (prop::bool::ANY, 0..=WHOLE).prop_map(|(is_cluster, name)| Op::Unwatch(is_cluster, name)),
        2 => (prop::bool::ANY, 0..=WHOLE, prop::bool::ANY)
            .prop_map(|(is_cluster, name, is_sent)| Op::Rewatch(is_cluster, name, is_sent)),
        4 => (0..20_000u64).prop_map(Op::Pass),
        1 => Just(Op::Break),
        1 => Just(Op::Stall),
    ]
}

/// Plays the operations, lets the link heal and time pass, and compares both ends: in both protocol variants and API
/// versions.
fn play(ops: &[Op]) {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        for version in [ApiVersion::V3, ApiVersion::V2] {
            play_by(protocol, version, ops.to_vec());
        }
    }
}

fn play_by(protocol: Protocol, version: ApiVersion, ops: impl IntoIterator<Item = Op>) {
    let mut pair = Pair::new(protocol, version);
    for op in ops {
        match op {
            Op::Cluster(number, new) => pair.change(true, number, new),
            Op::Assignment(number, new) => pair.change(false, number, new),
            Op::Watch(is_cluster, number) => pair.watch(is_cluster, number),
            Op::Unwatch(is_cluster, number) => pair.unwatch(is_cluster, number),
            Op::Rewatch(is_cluster, number, is_sent) => {
                if pair.is_watched(is_cluster, number) {
                    pair.unwatch(is_cluster, number);
                    if is_sent {
                        pair.drive();
                    }
                    pair.watch(is_cluster, number);
                }
            }
            Op::Pass(ms) => pair.pass(Duration::from_millis(ms)),
            Op::Break => pair.close("broken"),
            Op::Stall => pair.stalled = !pair.stalled,
        }
        pair.drive();
    }
    pair.stalled = false;
    pair.pass(Duration::from_secs(600));
    pair.check();
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..40)
}

proptest! {
    #![proptest_config(fixed_cases())]

    #[test]
    fn machines_converge_after_any_operations(ops in ops()) {
        play(&ops);
    }
}

proptest! {
    #![proptest_config(random_cases())]

    #[test]
    fn machines_converge_after_any_operations_random_seed(ops in ops()) {
        play(&ops);
    }
}
