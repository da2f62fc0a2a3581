//! Which priority of a cluster takes its traffic (gRFC A56).
//!
//! ```text
//!             ┌────────────── a higher one is ready or idle ──────────────┐
//!             ▼                                                           │
//!  try 0 ── fails, or is still connecting after 10 s ──► try 1 ── … ──► try n
//!                                                                         │ fails too
//!                                 the first that is still connecting, ◄───┘
//!                                 else the last one's failure
//! ```
//!
//! Priorities are numbers; the highest is 0. A priority is not connected to until it is tried, and is let go when a
//! higher one takes over. Keeping lower ones for a while (the 15 minutes of gRFC A56) is off, as gRFC A115 has it.

use std::time::Duration;

use super::Connectivity;
use crate::time::Instant;

/// How long a priority may connect before the next one is tried too (gRFC A56).
const FAILOVER: Duration = Duration::from_secs(10);

/// The state of each priority of one cluster, and which is in use.
#[derive(Debug, Clone, Default)]
pub struct Priorities {
    children: Vec<Option<Child>>,
}

/// A priority that has been tried.
#[derive(Debug, Clone)]
struct Child {
    state: Connectivity,
    /// Until when it may connect undisturbed. Runs from the start of connecting, until any other state.
    failover: Option<Instant>,
    /// It has failed since it was last ready or idle, so connecting again starts no new timer.
    has_failed: bool,
}

/// Who takes the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivePriority {
    /// The priority.
    pub priority: usize,
    /// Its state: RPCs go, wait or fail by it.
    pub state: Connectivity,
}

impl Priorities {
    /// No priorities: a cluster without endpoints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over a new list of priorities: for each, which one of the old list it continues, if any, so that
    /// renumbering one does not make it connect afresh (C-243). Nothing is chosen before [`choose`](Self::choose).
    pub fn renumber(&mut self, continues: &[Option<usize>]) {
        let mut old = std::mem::take(&mut self.children);
        self.children = continues
            .iter()
            .map(|index| index.and_then(|index| old.get_mut(index)?.take()))
            .collect();
    }

    /// A priority's state, as of now. Ignored for one that is not being tried.
    pub fn handle_state(&mut self, now: Instant, priority: usize, state: Connectivity) {
        if let Some(Some(child)) = self.children.get_mut(priority) {
            child.handle_state(now, state);
        }
    }

    /// Chooses the priority in use, and says which are being tried: all up to and including
    /// [`tried`](Self::tried). `None` if there are none at all.
    ///
    /// Call it after [`renumber`](Self::renumber), [`handle_state`](Self::handle_state) and whenever
    /// [`poll_timeout`](Self::poll_timeout) has come; when it starts to try a priority whose endpoints turn out to
    /// be connected already, tell so and call it again.
    pub fn choose(&mut self, now: Instant) -> Option<ActivePriority> {
        for priority in 0..self.children.len() {
            let child = self.children[priority].get_or_insert_with(|| Child::connecting(now));
            let usable = match child.state {
                Connectivity::Ready | Connectivity::Idle => true,
                Connectivity::Connecting => child.failover.is_some_and(|at| at > now),
                Connectivity::TransientFailure => false,
            };
            if usable {
                let state = child.state;
                if state != Connectivity::Connecting {
                    // A working priority needs nothing below it.
                    self.children[priority + 1..].fill(None);
                }
                return Some(ActivePriority { priority, state });
            }
        }
        self.least_bad()
    }

    /// All have failed or taken too long: wait for the first that may still come up, else fail as the last does.
    fn least_bad(&self) -> Option<ActivePriority> {
        let active = |(priority, child): (usize, &Option<Child>)| {
            let state = child.as_ref()?.state;
            Some(ActivePriority { priority, state })
        };
        let mut tried = self.children.iter().enumerate().filter_map(active);
        let connecting = tried.find(|child| child.state == Connectivity::Connecting);
        connecting.or_else(|| {
            self.children
                .iter()
                .enumerate()
                .next_back()
                .and_then(active)
        })
    }

    /// How many priorities, from the highest, are to be connected to.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.children
            .iter()
            .take_while(|child| child.is_some())
            .count()
    }

    /// When to call [`choose`](Self::choose) again if nothing else happens. Past timers do not count.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let timers = self
            .children
            .iter()
            .flatten()
            .filter_map(|child| child.failover);
        timers.filter(|at| *at > now).min()
    }
}

impl Child {
    fn connecting(now: Instant) -> Self {
        Self {
            state: Connectivity::Connecting,
            failover: Some(now + FAILOVER),
            has_failed: false,
        }
    }

    fn handle_state(&mut self, now: Instant, state: Connectivity) {
        match state {
            Connectivity::Connecting => {
                // A repeated report neither restarts nor stops the timer.
                if self.state != Connectivity::Connecting && !self.has_failed {
                    self.failover = Some(now + FAILOVER);
                }
            }
            Connectivity::Ready | Connectivity::Idle => {
                self.failover = None;
                self.has_failed = false;
            }
            Connectivity::TransientFailure => {
                self.failover = None;
                self.has_failed = true;
            }
        }
        self.state = state;
    }
}
