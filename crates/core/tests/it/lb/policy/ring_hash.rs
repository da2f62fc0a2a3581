//! C-248: ring hash.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use oxds_core::lb::Connectivity::{self, Connecting, Idle, Ready, TransientFailure};
use oxds_core::lb::policy::{Demand, Pick, PickCall, Policy, PolicyConfig, PolicyLocality};

use super::{built, endpoint, hashed, locality, pick_for, update};

fn config(min_ring_size: u64, max_ring_size: u64) -> PolicyConfig {
    PolicyConfig::RingHash {
        min_ring_size,
        max_ring_size,
    }
}

/// The hosts of Envoy's test: 127.0.0.1, ports 90 to 95.
fn envoy_hosts() -> PolicyLocality {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    PolicyLocality {
        weight: 1,
        endpoints: (90..96).map(|port| endpoint(address(port), 1)).collect(),
    }
}

/// The child of a hash if all are ready.
fn child(policy: &Policy, hash: u64) -> usize {
    let states = vec![Ready; policy.children().len()];
    match pick_for(&update(policy, &states), &hashed(hash)) {
        Pick::Child(child) => child,
        other => panic!("{other:?}"),
    }
}

/// Number of hashes, evenly spaced, that go to each child.
fn shares(policy: &Policy) -> BTreeMap<usize, u32> {
    let states = vec![Ready; policy.children().len()];
    let ready = update(policy, &states);
    let mut shares = BTreeMap::new();
    for hash in (0..10_000).map(|number| number * (u64::MAX / 10_000)) {
        if let Pick::Child(child) = pick_for(&ready, &hashed(hash)) {
            *shares.entry(child).or_default() += 1;
        }
    }
    shares
}

/// The positions are those that Envoy's `ring_hash_lb_test` states for the same hosts and size.
#[test]
fn c248_ring_is_the_same_as_envoys() {
    let policy = built(&config(12, 8_388_608), &[envoy_hosts()]);
    assert_eq!(policy.ring_size(), Some(12));
    assert_eq!(policy.demand(), Demand::OnPick);
    let table = [
        (94, 833_437_586_790_550_860),
        (92, 928_266_305_478_181_108),
        (90, 1_033_482_794_131_418_490),
        (95, 3_551_244_743_356_806_947),
        (93, 3_851_675_632_748_031_481),
        (91, 5_583_722_120_771_150_861),
        (91, 6_311_230_543_546_372_928),
        (93, 7_700_377_290_971_790_572),
        (95, 13_144_177_310_400_110_813),
        (92, 13_444_792_449_719_432_967),
        (94, 15_516_499_411_664_133_160),
        (90, 16_117_243_373_044_804_889_u64),
    ];
    let mut after_last = 0;
    for (port, position) in table {
        // A hash belongs to the first entry that is not below it.
        assert_eq!(child(&policy, position), port - 90, "{position}");
        assert_eq!(child(&policy, after_last), port - 90, "{after_last}");
        after_last = position + 1;
    }
    assert_eq!(child(&policy, after_last), 4, "around the end of the ring");
    assert_eq!(child(&policy, u64::MAX), 4);
}

#[test]
fn c248_entries_follow_locality_times_endpoint_weight() {
    // given weights 1·1, 1·3 and 2·2 of 8
    let localities = [locality(1, 1, &[1, 3]), locality(2, 2, &[2])];
    let policy = built(&config(4096, 4096), &localities);
    let shares = shares(&policy);
    assert!(shares[&0].abs_diff(1_250) < 250, "{shares:?}");
    assert!(shares[&1].abs_diff(3_750) < 400, "{shares:?}");
    assert!(shares[&2].abs_diff(5_000) < 400, "{shares:?}");
}

#[test]
fn c248_ring_size_is_scaled_and_capped() {
    let size = |min, max, weights: &[u32]| {
        built(&config(min, max), &[locality(1, 1, weights)]).ring_size()
    };
    // The lightest of weights 1 and 2 gets a whole number of entries: 4 of 12.
    assert_eq!(size(10, 100, &[1, 2]), Some(12));
    assert_eq!(size(10, 10, &[1, 2]), Some(10));
    // gRPC makes no larger ring than 4096, whatever the resource says, and whatever the weights are.
    assert_eq!(size(8_388_608, 8_388_608, &[1, 1]), Some(4096));
    assert_eq!(size(1, 8_388_608, &[1, u32::MAX]), Some(4096));
    assert_eq!(size(1024, 8_388_608, &[]), Some(0));
}

#[test]
fn c248_same_key_keeps_its_endpoint_when_another_leaves() {
    // given rings in which each host has a hundred entries
    let all = envoy_hosts();
    let before = built(&config(600, 600), std::slice::from_ref(&all));
    let mut less = all.clone();
    less.endpoints.remove(2);
    let after = built(&config(500, 500), &[less]);
    let hashes = (0..2_000).map(|number| number * (u64::MAX / 2_000));
    let mut moved = 0;
    for hash in hashes {
        let old = child(&before, hash);
        // The endpoints behind the removed one have the index before theirs.
        let expected = if old > 2 { old - 1 } else { old };
        match old {
            2 => moved += 1,
            _ => assert_eq!(child(&after, hash), expected, "{hash}"),
        }
    }
    assert!(
        moved > 200,
        "a sixth of the keys had the removed endpoint: {moved}"
    );
}

#[test]
fn c248_hash_key_of_the_endpoint_replaces_its_address() {
    let mut hosts = envoy_hosts();
    // given other addresses with the keys of the hosts
    for (index, host) in (1..).zip(&mut hosts.endpoints) {
        host.hash_key = Some(host.address.to_string().into());
        host.address = SocketAddr::from(([10, 0, 0, index], 80));
    }
    let policy = built(&config(12, 4096), &[hosts]);
    assert_eq!(child(&policy, 833_437_586_790_550_860), 4);
    assert_eq!(child(&policy, 5_583_722_120_771_150_861), 1);
}

#[test]
fn c248_idle_endpoint_of_the_key_connects_and_the_rpc_waits() {
    let policy = built(&config(12, 4096), &[envoy_hosts()]);
    // given hash 0, which belongs to child 4, and child 2 after it
    let mut states = [Idle; 6];
    states[2] = Ready;
    let picked = |states: &[Connectivity]| pick_for(&update(&policy, states), &hashed(0));
    assert_eq!(picked(&states), Pick::Connect(4));
    states[4] = Connecting;
    assert_eq!(picked(&states), Pick::Queue);
    // gRFC A61: a failed endpoint is skipped
    states[4] = TransientFailure;
    assert_eq!(picked(&states), Pick::Child(2));
    states[2] = Idle;
    assert_eq!(picked(&states), Pick::Connect(2));
    assert_eq!(picked(&[TransientFailure; 6]), Pick::Fail);
}

#[test]
fn c248_state_follows_the_rules_in_order() {
    let state = |states: &[Connectivity]| {
        let weights = vec![1; states.len()];
        let policy = built(&config(1, 4096), &[locality(1, 1, &weights)]);
        let update = update(&policy, states);
        (update.state, update.connect)
    };
    let nothing: Vec<usize> = Vec::new();
    assert_eq!(
        state(&[Ready, TransientFailure, TransientFailure]),
        (Ready, nothing.clone())
    );
    assert_eq!(state(&[Idle, Idle]), (Idle, nothing.clone()));
    assert_eq!(state(&[Idle, Connecting]), (Connecting, nothing.clone()));
    // One failure of several counts as connecting, and the policy tries the next by itself.
    assert_eq!(
        state(&[TransientFailure, Idle, Idle]),
        (Connecting, vec![1])
    );
    assert_eq!(
        state(&[TransientFailure, Connecting, Idle]),
        (Connecting, nothing.clone())
    );
    // Two failures are enough for the next priority; the policy goes on trying.
    assert_eq!(
        state(&[TransientFailure, TransientFailure, Idle]),
        (TransientFailure, vec![2])
    );
    assert_eq!(
        state(&[TransientFailure, TransientFailure, Connecting]),
        (TransientFailure, nothing.clone())
    );
    assert_eq!(
        state(&[TransientFailure]),
        (TransientFailure, nothing.clone())
    );
    assert_eq!(state(&[]), (TransientFailure, nothing));
}

#[test]
fn c248_rpc_without_hash_uses_its_random_number() {
    let policy = built(&config(12, 4096), &[envoy_hosts()]);
    let ready = update(&policy, &[Ready; 6]);
    let call = PickCall {
        hash: None,
        ..hashed(0)
    };
    let random = |random_hash| PickCall {
        random_hash,
        ..call
    };
    assert_eq!(
        pick_for(&ready, &random(3_551_244_743_356_806_947)),
        Pick::Child(5)
    );
    assert_eq!(
        pick_for(&ready, &random(3_551_244_743_356_806_948)),
        Pick::Child(3)
    );
}
