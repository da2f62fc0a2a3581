//! C-240 – C-243: which priority takes the traffic.

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

    /// A priority comes into a state; which one is in use then?
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
fn c240_a_lower_priority_is_not_tried_until_it_is_needed() {
    let mut played = Played::of(3);
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.tried(), 1);
    assert_eq!(played.state(0, Ready), (0, Ready));
    assert_eq!(played.tried(), 1);
    assert_eq!(played.timeout(), None, "c240: READY cancels the timer");
}

#[test]
fn c240_after_ten_seconds_of_connecting_the_next_one_is_tried() {
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
fn c240_a_failure_is_not_waited_upon() {
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
fn c240_connecting_reported_twice_does_not_restart_the_timer() {
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
fn c240_connecting_again_has_a_timer_unless_it_failed_last() {
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
fn c240_an_idle_priority_is_usable() {
    let mut played = Played::of(2);
    played.choose();
    assert_eq!(played.state(0, Idle), (0, Idle));
    assert_eq!(played.tried(), 1);
}

#[test]
fn c241_when_all_have_failed_the_first_that_connects_is_waited_for_else_the_last_fails() {
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
fn c241_when_all_have_taken_too_long_the_first_is_waited_for() {
    let mut played = Played::of(2);
    played.choose();
    played.wait(10);
    assert_eq!(played.wait(10), (0, Connecting));
    assert_eq!(played.timeout(), None);
    assert_eq!(played.tried(), 2, "both go on connecting");
}

#[test]
fn c241_no_priorities_are_no_choice() {
    let mut none = Priorities::new();
    assert_eq!(none.choose(Instant::EPOCH), None);
    assert_eq!(none.tried(), 0);
}

#[test]
fn c242_a_higher_one_that_is_ready_again_takes_over_at_once_and_the_lower_are_let_go() {
    let mut played = Played::of(3);
    played.choose();
    played.state(0, TransientFailure);
    played.state(1, TransientFailure);
    assert_eq!(played.state(2, Ready), (2, Ready));
    assert_eq!(played.state(1, Ready), (1, Ready));
    assert_eq!(played.tried(), 2);
    assert_eq!(played.state(0, Ready), (0, Ready));
    assert_eq!(played.tried(), 1);
    // What was let go is told nothing, and begins anew when it is needed.
    played.state(1, Ready);
    assert_eq!(played.tried(), 1);
    assert_eq!(played.state(0, TransientFailure), (1, Connecting));
    assert_eq!(played.timeout(), Some(10));
}

#[test]
fn c243_a_priority_that_is_renumbered_keeps_its_state() {
    let mut played = Played::of(2);
    played.choose();
    played.state(0, TransientFailure);
    played.state(1, Ready);
    // A new highest one; the others move down.
    played.priorities.renumber(&[None, Some(0), Some(1)]);
    assert_eq!(played.tried(), 0, "no choice is made by an update alone");
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.timeout(), Some(10));
    assert_eq!(
        played.state(0, TransientFailure),
        (2, Ready),
        "without connecting again"
    );
    // The highest ones go; what served goes on serving.
    played.priorities.renumber(&[Some(2)]);
    assert_eq!(played.choose(), (0, Ready));
}

#[test]
fn c243_a_timer_runs_on_through_an_update() {
    let mut played = Played::of(2);
    played.choose();
    played.wait(7);
    played.priorities.renumber(&[Some(0), None]);
    assert_eq!(played.choose(), (0, Connecting));
    assert_eq!(played.timeout(), Some(3));
}
