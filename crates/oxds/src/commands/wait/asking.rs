//! When all clients are asked for: the answer of a control plane with 10,000 clients has megabytes.
//!
//! ```text
//!            the status has changed
//!   asked ──────────────────────────▶ wanted ── no client is behind, 200 ms after the last time ──▶ asked
//!     ▲                                  │
//!     └──────── 5 s after the last time ─┘      a client is behind all the time
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Shortest time from one time to the next: short for a person, and cheap for a control plane with thousands of clients.
pub(super) const PACE: Duration = Duration::from_millis(200);
/// The same while the status says that clients are behind: they would be in the answer.
const PACE_BEHIND: Duration = Duration::from_secs(5);

/// Decides when the clients are asked for.
#[derive(Debug)]
pub(super) struct Asking {
    begun: Instant,
    last: Option<Instant>,
    is_wanted: bool,
    /// Whether a client that is behind with any resource decides.
    of_all: bool,
}

impl Asking {
    /// Begins. `of_all`: all resources are waited for, and not one.
    pub(super) fn new(now: Instant, of_all: bool) -> Self {
        Self {
            begun: now,
            last: None,
            is_wanted: true,
            of_all,
        }
    }

    /// The state may have changed.
    pub(super) fn changed(&mut self) {
        self.is_wanted = true;
    }

    /// The clients were asked for.
    pub(super) fn asked(&mut self, now: Instant) {
        self.last = Some(now);
        self.is_wanted = false;
    }

    /// Returns when to ask, if nothing changes; `None`: only after a change. `behind` is how many clients have not answered a
    /// change; 0 if that is not known.
    pub(super) fn due(&self, behind: usize) -> Option<Instant> {
        let due = match (self.of_all && behind > 0, self.last) {
            (true, last) => last.unwrap_or(self.begun) + PACE_BEHIND,
            (false, Some(last)) => last + PACE,
            (false, None) => self.begun,
        };
        self.is_wanted.then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often the clients are asked for while the status changes each 10 ms.
    fn asked(changes: u32, of_all: bool, behind: impl Fn(u32) -> usize) -> usize {
        let mut now = Instant::now();
        let mut asking = Asking::new(now, of_all);
        let mut count = 0;
        for change in 0..changes {
            asking.changed();
            let due = asking.due(behind(change));
            if due.is_some_and(|due| due <= now) {
                asking.asked(now);
                count += 1;
            }
            now += Duration::from_millis(10);
        }
        count
    }

    /// Given 10,000 clients that answer one after the other within 4 s, then the clients are asked for once: when none is behind.
    #[test]
    fn clients_are_asked_for_when_none_is_behind() {
        let behind = |change: u32| 10_000_usize.saturating_sub(change as usize * 25);
        assert_eq!(asked(401, true, behind), 1);
    }

    /// Given changes all the time, then they are asked for five times per second, and every 5 s while a client is behind.
    #[test]
    fn clients_are_asked_for_at_a_bounded_rate() {
        assert_eq!(asked(1_000, true, |_| 0), 50);
        assert_eq!(asked(2_000, true, |_| 1), 3);
        assert_eq!(asked(1_000, false, |_| 1), 50, "of one resource");
    }

    #[test]
    fn clients_are_not_asked_for_again_without_a_change() {
        let now = Instant::now();
        let mut asking = Asking::new(now, true);
        assert_eq!(asking.due(0), Some(now));
        asking.asked(now);
        assert_eq!(asking.due(0), None);
        asking.changed();
        assert_eq!(asking.due(0), Some(now + PACE));
    }
}
