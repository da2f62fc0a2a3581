//! C-249: least request.

use std::collections::BTreeMap;

use oxds_core::lb::Connectivity::{Connecting, Ready, TransientFailure};
use oxds_core::lb::policy::{Demand, Pick, PolicyConfig};

use super::{CALL, InFlight, built, locality, pick, randoms, update};

fn config(choice_count: u32) -> PolicyConfig {
    PolicyConfig::LeastRequest { choice_count }
}

#[test]
fn c249_fewest_rpcs_in_flight_of_the_drawn_wins() {
    let policy = built(&config(2), &[locality(1, 1, &[1; 4])]);
    assert_eq!(policy.demand(), Demand::Always);
    let ready = update(&policy, &[Ready; 4]);
    let mut random = randoms();
    let mut counts = BTreeMap::new();
    for _ in 0..16_000 {
        // given that child 3 has the most RPCs under way, and child 0 the fewest
        let picked = ready
            .picker
            .pick(&CALL, &InFlight(&[0, 1, 2, 9]), &mut random);
        *counts.entry(format!("{picked:?}")).or_insert(0_u32) += 1;
    }
    // then, of 16 pairs with replacement, it wins 7, 5, 3 and 1
    for (child, wins) in [(0, 7_000_u32), (1, 5_000), (2, 3_000), (3, 1_000)] {
        let count = counts[&format!("Child({child})")];
        assert!(count.abs_diff(wins) < 300, "{counts:?}");
    }
}

#[test]
fn c249_at_most_ten_choices_are_drawn() {
    let policy = built(&config(u32::MAX), &[locality(1, 1, &[1; 3])]);
    let ready = update(&policy, &[Ready; 3]);
    let mut draws = 0;
    let mut random = || {
        draws += 1;
        0
    };
    ready.picker.pick(&CALL, &InFlight(&[]), &mut random);
    assert_eq!(draws, 10);
}

#[test]
fn c249_only_ready_children_are_drawn() {
    let policy = built(&config(2), &[locality(1, 1, &[1; 3])]);
    let one = update(&policy, &[Connecting, Ready, TransientFailure]);
    assert_eq!((one.state, pick(&one)), (Ready, Pick::Child(1)));
    let none = update(&policy, &[Connecting, TransientFailure, TransientFailure]);
    assert_eq!((none.state, pick(&none)), (Connecting, Pick::Queue));
    let failed = update(&policy, &[TransientFailure; 3]);
    assert_eq!(
        (failed.state, pick(&failed)),
        (TransientFailure, Pick::Fail)
    );
}
