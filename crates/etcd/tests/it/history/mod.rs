//! G-40: the history of random publishes under random faults.
//!
//! Writers of two lanes publish step by step; requests are lost, or take effect with an unknown outcome, one by one and
//! for as long as a partition lasts; writers are killed, leases end. Three replicas follow over connections that break,
//! stop, and duplicate, lose or reorder events, and over partitions in one or both directions; they restart, with and
//! without their state. Clocks step back and forth. The store is compacted, and restored from a backup, with and
//! without a bump of its revision. Then everything heals.
//!
//! The properties: each acknowledged publish is in the chain of its lane once; what a replica serves, and so its
//! clients, is a subsequence of the chain; after the healing all replicas serve the heads.

mod random;
mod replica;
mod store;

use random::Random;
use replica::Replica;
use store::Store;

use crate::cases;

const REPLICAS: usize = 3;

/// Plays a history with this number of publishes.
fn play(seed: u64, publishes: usize) {
    let mut random = Random(seed);
    let mut store = Store::default();
    let mut replicas: Vec<_> = (0..REPLICAS).map(Replica::new).collect();
    while store.begun < publishes {
        store.step(&mut random);
        for replica in &mut replicas {
            let actions = random.below(4);
            (0..actions).for_each(|_| replica.act(&mut store, &mut random));
        }
        if random.one_in(400) {
            let bumps = random.one_in(2);
            store.restore(bumps);
            replicas
                .iter()
                .for_each(|replica| replica.report(&mut store));
        }
    }
    store.finish();
    for replica in &mut replicas {
        replica.heal(&mut store);
        replica.check_current(&store);
    }
    store.check_acknowledged();
}

#[test]
fn g40_history_with_a_fixed_seed_is_clean() {
    play(0x0d5, 300);
}

/// The number of publishes is that of `OXDS_PUBLISHES`, else 300; `OXDS_SEED` repeats a run.
#[test]
fn g40_history_with_a_random_seed_is_clean() {
    let publishes = publishes();
    play(cases::seed(), publishes);
}

/// Number of publishes of a random history: that of `OXDS_PUBLISHES`, or 300.
fn publishes() -> usize {
    let publishes = cases::variable("OXDS_PUBLISHES");
    publishes.map_or(300, |count| {
        count.parse().expect("OXDS_PUBLISHES is a number")
    })
}
