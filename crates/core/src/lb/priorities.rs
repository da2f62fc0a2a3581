//! Choice of the priority that gets a cluster's traffic (gRFC A56).
//!
//! ```text
//!            ┌──────────── a higher one is ready or idle ─────────────┐
//!            ▼                                                        │
//!  try 0 ── fails, or still connecting after 10 s ──► try 1 ── … ──► try n
//!                                                                     │ fails, too
//!                       the first that is still connecting, or else ◄─┘
//!                       the failure of the last one
//! ```
//!
//! Priorities are numbers; the highest is 0. A priority connects when it is tried, and disconnects when a higher one
//! becomes active. Lower priorities are not kept for 15 minutes, as gRFC A56 has it, but released at once, as gRFC A115
//! has it.

use std::time::Duration;

use crate::time::Instant;

/// Failover timer: time for which a priority may connect before the next one is tried (gRFC A56).
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connectivity state of a connection, or of a group of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Connectivity {
    /// Not connected, and not connecting.
    Idle,
    /// Connecting; RPCs wait.
    Connecting,
    /// Connected; RPCs are sent.
    Ready,
    /// The last attempt failed; RPCs fail until the state is ready again.
    TransientFailure,
}

impl Connectivity {
    /// Returns the state of a round robin over endpoints with these states; `TransientFailure` for no endpoints.
    #[must_use]
    pub fn of_round_robin(states: impl IntoIterator<Item = Self>) -> Self {
        // gRFC A61: ready if one endpoint is, failed only if all are.
        let mut aggregate = Self::TransientFailure;
        for state in states {
            match state {
                Self::Ready => return Self::Ready,
                Self::Connecting => aggregate = Self::Connecting,
                // Round robin connects to idle endpoints at once.
                Self::Idle if aggregate == Self::TransientFailure => aggregate = Self::Connecting,
                Self::Idle | Self::TransientFailure => {}
            }
        }
        aggregate
    }

    /// Returns the state of a policy over children that connect on their own; `TransientFailure` without children.
    #[must_use]
    pub fn of_children(states: impl IntoIterator<Item = Self>) -> Self {
        // gRFC A28, A42: ready if one child is, then connecting, then idle, and failed only if all are.
        let rank = |state: &Self| match state {
            Self::Ready => 3,
            Self::Connecting => 2,
            Self::Idle => 1,
            Self::TransientFailure => 0,
        };
        let best = states.into_iter().max_by_key(rank);
        best.unwrap_or(Self::TransientFailure)
    }
}

/// States of the priorities of one cluster, and the choice between them.
#[derive(Debug, Clone, Default)]
pub struct Priorities {
    children: Vec<Option<Child>>,
}

/// A priority that was tried.
#[derive(Debug, Clone)]
struct Child {
    state: Connectivity,
    /// End of the failover timer. It runs from the start of connecting until any other state.
    failover: Option<Instant>,
    /// Whether it failed since it was last ready or idle. Then connecting again does not restart the timer.
    has_failed: bool,
}

/// The priority that gets the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivePriority {
    /// Index of the priority; 0 is the highest.
    pub priority: usize,
    /// State of the priority: RPCs are sent, wait or fail accordingly.
    pub state: Connectivity,
}

impl Priorities {
    /// Returns a cluster without priorities, which has no endpoints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the list of priorities. Each item is the index of the old priority that it continues, if there is one,
    /// so that a renumbered priority keeps its connections (C-243). The choice changes with the next
    /// [`choose`](Self::choose).
    pub fn renumber(&mut self, continues: &[Option<usize>]) {
        let mut old = std::mem::take(&mut self.children);
        self.children = continues
            .iter()
            .map(|index| index.and_then(|index| old.get_mut(index)?.take()))
            .collect();
    }

    /// Handles the state of a priority. It is ignored for a priority that is not tried.
    pub fn handle_state(&mut self, now: Instant, priority: usize, state: Connectivity) {
        if let Some(Some(child)) = self.children.get_mut(priority) {
            child.handle_state(now, state);
        }
    }

    /// Chooses the active priority, and tries priorities from the highest down to [`tried`](Self::tried). Returns
    /// `None` without priorities.
    ///
    /// Call it after [`renumber`](Self::renumber), after [`handle_state`](Self::handle_state), and at the time that
    /// [`poll_timeout`](Self::poll_timeout) returned. If the endpoints of a priority that it starts to try are
    /// connected already, report their state and call it again.
    pub fn choose(&mut self, now: Instant) -> Option<ActivePriority> {
        for priority in 0..self.children.len() {
            let child = self.children[priority].get_or_insert_with(|| Child::connecting(now));
            // gRFC A56: the first priority is chosen that is ready or idle, or connecting with a running failover
            // timer.
            let is_chosen = match child.state {
                Connectivity::Ready | Connectivity::Idle => true,
                Connectivity::Connecting => child.failover.is_some_and(|at| at > now),
                Connectivity::TransientFailure => false,
            };
            if is_chosen {
                let state = child.state;
                if state != Connectivity::Connecting {
                    // gRFC A115: priorities below a working one are released at once.
                    self.children[priority + 1..].fill(None);
                }
                return Some(ActivePriority { priority, state });
            }
        }
        self.fallback()
    }

    /// Returns the priority to report when all have failed or taken too long: the first that is connecting, or else the
    /// last.
    fn fallback(&self) -> Option<ActivePriority> {
        let active = |(priority, child): (usize, &Option<Child>)| {
            let state = child.as_ref()?.state;
            Some(ActivePriority { priority, state })
        };
        let mut tried = self.children.iter().enumerate().filter_map(active);
        // gRFC A56: a connecting priority is preferred, since RPCs that wait may still succeed.
        let connecting = tried.find(|child| child.state == Connectivity::Connecting);
        connecting.or_else(|| {
            self.children
                .iter()
                .enumerate()
                .next_back()
                .and_then(active)
        })
    }

    /// Returns the number of priorities, from the highest, that must be connected.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.children
            .iter()
            .take_while(|child| child.is_some())
            .count()
    }

    /// Returns when to call [`choose`](Self::choose) again if nothing else happens. Timers in the past do not count.
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
            failover: Some(now + FAILOVER_TIMEOUT),
            has_failed: false,
        }
    }

    fn handle_state(&mut self, now: Instant, state: Connectivity) {
        match state {
            Connectivity::Connecting => {
                // gRFC A56: a repeated report neither restarts nor stops the timer, and connecting after a failure does
                // not start it.
                if self.state != Connectivity::Connecting && !self.has_failed {
                    self.failover = Some(now + FAILOVER_TIMEOUT);
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
