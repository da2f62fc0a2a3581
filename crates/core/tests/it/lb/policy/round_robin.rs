//! C-244, C-247: round robin, and localities by weight.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::lb::Connectivity::{Connecting, Ready, TransientFailure};
use oxds_core::lb::policy::{Demand, Pick, PolicyConfig};

use super::{built, counts, endpoints_of, input, locality, pick, update};

#[test]
fn c247_round_robin_picks_ready_children_in_turn() {
    let localities = [locality(1, 1, &[1, 1]), locality(2, 9, &[1, 1])];
    let policy = built(&PolicyConfig::RoundRobin, &localities);
    assert_eq!(policy.demand(), Demand::Always);
    let states = [Ready, TransientFailure, Ready, Connecting];
    let ready = update(&policy, &states);
    assert_eq!(ready.state, Ready);
    // Without wrr_locality the weights of localities do not count.
    assert_eq!(counts(&ready, 100), BTreeMap::from([(0, 50), (2, 50)]));
}

#[test]
fn c247_round_robin_starts_at_a_random_child() {
    let policy = built(&PolicyConfig::RoundRobin, &[locality(1, 1, &[1; 4])]);
    let first = |random: u64| {
        let update = policy.update(input(&[Ready; 4]), &mut || random);
        pick(&update)
    };
    let firsts: Vec<_> = (0..4).map(first).collect();
    assert_eq!(firsts, [0, 1, 2, 3].map(Pick::Child));
}

#[test]
fn c247_round_robin_fails_only_if_all_children_fail() {
    let policy = built(&PolicyConfig::RoundRobin, &[locality(1, 1, &[1, 1])]);
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
    let policy = built(&config, &localities);
    assert_eq!(endpoints_of(&policy), [[0], [1], [2], [3]]);
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
    let policy = built(&config, &localities);
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
    let empty = built(&config, &[]);
    assert_eq!(update(&empty, &[]).state, TransientFailure);
}
