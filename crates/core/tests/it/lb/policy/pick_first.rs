//! C-251: pick_first, and endpoints with several addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use oxds_core::lb::Connectivity::{self, Connecting, Idle, Ready, TransientFailure};
use oxds_core::lb::policy::{Demand, Pick, PickFirst, Policy, PolicyConfig, PolicyLocality};
use oxds_core::time::Instant;

use super::{built, endpoint, endpoints_of, locality, pick, randoms, update};

/// A connector, with the addresses that it has asked to connect.
struct Played {
    machine: PickFirst,
    now: Instant,
    count: usize,
}

impl Played {
    fn of(count: usize) -> Self {
        Self {
            machine: PickFirst::new(count),
            now: Instant::EPOCH,
            count,
        }
    }

    /// Leaves idle with idle addresses.
    fn connecting(count: usize) -> Self {
        let mut played = Self::of(count);
        played.machine.connect(played.now, vec![Idle; count]);
        played
    }

    fn state(&mut self, index: usize, state: Connectivity) -> Connectivity {
        self.machine.handle_state(self.now, index, state);
        self.machine.state()
    }

    fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.machine.handle_timeout(self.now);
    }

    /// The idle addresses that must connect now.
    fn wanted(&self) -> Vec<usize> {
        (0..self.count)
            .filter(|index| self.machine.wants(*index))
            .collect()
    }

    /// Lets the wanted addresses begin to connect.
    fn dial(&mut self) -> Vec<usize> {
        let wanted = self.wanted();
        for index in &wanted {
            self.state(*index, Connecting);
        }
        wanted
    }

    /// Milliseconds until the timer.
    fn timeout(&self) -> Option<u128> {
        Some((self.machine.poll_timeout()? - self.now).as_millis())
    }
}

#[test]
fn c251_next_address_is_tried_after_250_ms() {
    let mut played = Played::connecting(3);
    assert_eq!(played.dial(), [0]);
    assert_eq!(played.timeout(), Some(250));
    played.wait(249);
    assert_eq!(played.wanted(), [0; 0]);
    played.wait(1);
    assert_eq!(played.dial(), [1]);
    played.wait(250);
    assert_eq!(played.dial(), [2]);
    assert_eq!(played.timeout(), None, "nothing is left to try");
    // The first to be ready wins, whichever it is.
    assert_eq!(played.state(1, Ready), Ready);
    assert_eq!(played.machine.selected(), Some(1));
}

#[test]
fn c251_failure_tries_the_next_address_at_once() {
    let mut played = Played::connecting(2);
    played.dial();
    assert_eq!(played.state(0, TransientFailure), Connecting);
    assert_eq!(played.dial(), [1]);
    // A failed address waits for the others after its backoff.
    assert_eq!(played.state(0, Idle), Connecting);
    assert_eq!(played.wanted(), [0; 0]);
    assert_eq!(played.state(1, TransientFailure), TransientFailure);
    // gRFC A61: then all connect, each after its own backoff.
    assert_eq!(played.dial(), [0]);
    assert_eq!(played.state(1, Idle), TransientFailure);
    assert_eq!(played.dial(), [1]);
}

#[test]
fn c251_failure_is_sticky_until_ready() {
    let mut played = Played::connecting(1);
    played.dial();
    assert_eq!(played.state(0, TransientFailure), TransientFailure);
    assert_eq!(played.state(0, Idle), TransientFailure);
    assert_eq!(played.dial(), [0]);
    assert_eq!(
        played.machine.state(),
        TransientFailure,
        "while it connects"
    );
    assert_eq!(played.state(0, Ready), Ready);
}

#[test]
fn c251_lost_connection_makes_it_idle() {
    let mut played = Played::connecting(2);
    played.dial();
    played.state(0, Ready);
    assert_eq!(played.state(1, TransientFailure), Ready, "not in use");
    assert_eq!(played.state(0, Idle), Idle);
    assert_eq!(played.wanted(), [0; 0]);
    // and the next connect begins with the first address again
    played.machine.connect(played.now, [Idle, Idle]);
    assert_eq!(played.dial(), [0]);
}

#[test]
fn c251_connected_address_is_used_whatever_its_place() {
    let mut played = Played::of(3);
    played
        .machine
        .connect(played.now, [Idle, TransientFailure, Ready]);
    assert_eq!(played.machine.selected(), Some(2));
}

#[test]
fn c251_address_in_backoff_of_another_channel_is_skipped() {
    let mut played = Played::of(2);
    played.machine.connect(played.now, [TransientFailure, Idle]);
    assert_eq!(played.dial(), [1]);
    assert_eq!(played.state(1, TransientFailure), TransientFailure);
    let mut failed = Played::of(2);
    failed.machine.connect(failed.now, [TransientFailure; 2]);
    assert_eq!(failed.machine.state(), TransientFailure);
}

const IN_ORDER: PolicyConfig = PolicyConfig::PickFirst { shuffle: false };

#[test]
fn c251_all_endpoints_are_one_child() {
    let localities = [locality(1, 1, &[1, 1]), locality(2, 1, &[1])];
    let policy = built(&IN_ORDER, &localities);
    assert_eq!(policy.demand(), Demand::AtStart);
    assert_eq!(endpoints_of(&policy), [[0, 1, 2]]);
    for (state, expected) in [
        (Ready, Pick::Child(0)),
        (Connecting, Pick::Queue),
        (Idle, Pick::Connect(0)),
        (TransientFailure, Pick::Fail),
    ] {
        let update = update(&policy, &[state]);
        assert_eq!((update.state, pick(&update)), (state, expected));
    }
    assert_eq!(update(&built(&IN_ORDER, &[]), &[]).state, TransientFailure);
}

#[test]
fn c251_address_families_take_turns() {
    let v4 = |last| SocketAddr::from(([10, 0, 0, last], 80));
    let v6 = |last| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, last], 80));
    let addresses = |policy: &Policy| -> Vec<Vec<SocketAddr>> {
        let children = policy.children().iter();
        children
            .map(|child| child.addresses.iter().map(|each| each.address).collect())
            .collect()
    };
    let mut dual = endpoint(v6(1), 1);
    dual.additional_addresses = vec![v6(2), v4(1), v4(2)];
    let locality = PolicyLocality {
        weight: 1,
        endpoints: vec![dual, endpoint(v6(3), 1)],
    };
    // An endpoint keeps its own addresses together, pick_first mixes those of all.
    let round_robin = built(&PolicyConfig::RoundRobin, std::slice::from_ref(&locality));
    assert_eq!(
        addresses(&round_robin),
        [vec![v6(1), v4(1), v6(2), v4(2)], vec![v6(3)]]
    );
    let pick_first = built(&IN_ORDER, &[locality]);
    assert_eq!(
        addresses(&pick_first),
        [[v6(1), v4(1), v6(2), v4(2), v6(3)]]
    );
}

#[test]
fn c251_shuffle_puts_each_endpoint_first_by_its_weight() {
    let localities = [locality(1, 1, &[1, 3])];
    let config = PolicyConfig::PickFirst { shuffle: true };
    let mut random = randoms();
    let mut firsts = BTreeMap::new();
    for _ in 0..4_000 {
        let policy = Policy::new(&config, &localities, 0, &mut random);
        *firsts.entry(endpoints_of(&policy)[0][0]).or_insert(0_u32) += 1;
    }
    assert!(firsts[&0].abs_diff(1_000) < 150, "{firsts:?}");
    assert!(firsts[&1].abs_diff(3_000) < 150, "{firsts:?}");
}
