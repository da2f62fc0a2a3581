//! C-240 – C-243: the priority that gets the traffic.

use std::time::Duration;

use oxds_core::lb::Connectivity::{self, Connecting, Idle, Ready, TransientFailure};
use oxds_core::lb::{ActivePriority, Priorities};
use oxds_core::time::Instant;

/// The priorities of a cluster, and the time.
struct Played {
    priorities: Priorities,
    now: Instant,
}

impl Played {
    /// A new cluster with this many priorities.
    fn of(count: usize) -> Self {
        let mut priorities = Priorities::new();
        priorities.renumber(&vec![None; count]);
        Self {
            priorities,
            now: Instant::EPOCH,
        }
    }

    /// Sets the state of a priority, and returns the active one.
    fn state(&mut self, priority: usize, state: Connectivity) -> (usize, Connectivity) {
        self.priorities.handle_state(self.now, priority, state);
        self.choose()
    }

    fn wait(&mut self, seconds: u64) -> (usize, Connectivity) {
        self.now += Duration::from_secs(seconds);
        self.choose()
    }

    fn choose(&mut self) -> (usize, Connectivity) {
        let ActivePriority { priority, state } =
            self.priorities.choose(self.now).expect("there are some");
        (priority, state)
    }

    fn tried(&self) -> usize {
        self.priorities.tried()
    }

    /// Seconds until the next timer.
    fn timeout(&self) -> Option<u64> {
        let at = self.priorities.poll_timeout(self.now)?;
        Some((at - self.now).as_secs())
    }
}

#[test]
fn c240_lower_priority_is_tried_only_when_needed() {
    let mut played = Played::of(3);
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.tried(), 1);
    assert_eq!(played.state(0, Ready), (0, Ready));
    assert_eq!(played.tried(), 1);
    assert_eq!(played.timeout(), None, "c240: READY cancels the timer");
}

#[test]
fn c240_failover_timer_tries_the_next_priority() {
    let mut played = Played::of(2);
    played.choose();
    assert_eq!(played.timeout(), Some(10));
    assert_eq!(played.wait(9), (0, Connecting));
    assert_eq!(played.wait(1), (1, Connecting));
    assert_eq!(played.tried(), 2);
    assert_eq!(
        played.timeout(),
        Some(10),
        "the second has its own ten seconds"
    );
    assert_eq!(played.state(1, Ready), (1, Ready));
}

#[test]
fn c240_failure_tries_the_next_priority_at_once() {
    let mut played = Played::of(2);
    played.choose();
    assert_eq!(played.state(0, TransientFailure), (1, Connecting));
    assert_eq!(
        played.timeout(),
        Some(10),
        "of the second; the first one's is cancelled"
    );
}

#[test]
fn c240_repeated_connecting_does_not_restart_timer() {
    let mut played = Played::of(2);
    played.choose();
    played.wait(6);
    assert_eq!(played.state(0, Connecting), (0, Connecting));
    assert_eq!(played.timeout(), Some(4));
    assert_eq!(played.wait(4), (1, Connecting));
    assert_eq!(
        played.state(0, Connecting),
        (1, Connecting),
        "nor does it start one that has run out"
    );
}

#[test]
fn c240_reconnecting_has_timer_unless_it_failed_last() {
    let mut played = Played::of(2);
    played.choose();
    played.state(0, Ready);
    assert_eq!(
        played.state(0, Connecting),
        (0, Connecting),
        "after READY it is waited for"
    );
    assert_eq!(played.timeout(), Some(10));
    played.state(0, Idle);
    assert_eq!(played.timeout(), None, "IDLE cancels the timer");
    assert_eq!(
        played.state(0, Connecting),
        (0, Connecting),
        "after IDLE too"
    );
    played.state(0, TransientFailure);
    assert_eq!(
        played.state(0, Connecting),
        (1, Connecting),
        "after TRANSIENT_FAILURE it is not"
    );
    played.state(1, TransientFailure);
    played.state(0, Ready);
    assert_eq!(
        played.state(0, Connecting),
        (0, Connecting),
        "until it was READY once more"
    );
}

#[test]
fn c240_idle_priority_is_chosen() {
    let mut played = Played::of(2);
    played.choose();
    assert_eq!(played.state(0, Idle), (0, Idle));
    assert_eq!(played.tried(), 1);
}

#[test]
fn c241_all_failed_picks_first_connecting_else_last() {
    let mut played = Played::of(3);
    played.choose();
    for (priority, expected) in [
        (0, (1, Connecting)),
        (1, (2, Connecting)),
        (2, (2, TransientFailure)),
    ] {
        assert_eq!(played.state(priority, TransientFailure), expected);
    }
    assert_eq!(played.state(1, Connecting), (1, Connecting));
    assert_eq!(played.state(0, Connecting), (0, Connecting));
    assert_eq!(played.timeout(), None, "nothing is left to fail over to");
    assert_eq!(played.state(2, Ready), (2, Ready));
}

#[test]
fn c241_all_timed_out_picks_the_first() {
    let mut played = Played::of(2);
    played.choose();
    played.wait(10);
    assert_eq!(played.wait(10), (0, Connecting));
    assert_eq!(played.timeout(), None);
    assert_eq!(played.tried(), 2, "both go on connecting");
}

#[test]
fn c241_no_priorities_give_no_choice() {
    let mut none = Priorities::new();
    assert_eq!(none.choose(Instant::EPOCH), None);
    assert_eq!(none.tried(), 0);
}

#[test]
fn c242_ready_higher_priority_takes_over_and_lower_release() {
    let mut played = Played::of(3);
    played.choose();
    played.state(0, TransientFailure);
    played.state(1, TransientFailure);
    assert_eq!(played.state(2, Ready), (2, Ready));
    assert_eq!(played.state(1, Ready), (1, Ready));
    assert_eq!(played.tried(), 2);
    assert_eq!(played.state(0, Ready), (0, Ready));
    assert_eq!(played.tried(), 1);
    // A released priority ignores reports, and starts again when it is tried.
    played.state(1, Ready);
    assert_eq!(played.tried(), 1);
    assert_eq!(played.state(0, TransientFailure), (1, Connecting));
    assert_eq!(played.timeout(), Some(10));
}

#[test]
fn c243_renumbered_priority_keeps_its_state() {
    let mut played = Played::of(2);
    played.choose();
    played.state(0, TransientFailure);
    played.state(1, Ready);
    // A new highest priority; the others move down.
    played.priorities.renumber(&[None, Some(0), Some(1)]);
    assert_eq!(played.tried(), 0, "no choice is made by an update alone");
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.timeout(), Some(10));
    assert_eq!(
        played.state(0, TransientFailure),
        (2, Ready),
        "without connecting again"
    );
    // The highest priorities are removed; the active one stays active.
    played.priorities.renumber(&[Some(2)]);
    assert_eq!(played.choose(), (0, Ready));
}

#[test]
fn c243_failover_timer_survives_an_update() {
    let mut played = Played::of(2);
    played.choose();
    played.wait(7);
    played.priorities.renumber(&[Some(0), None]);
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.timeout(), Some(3));
}
