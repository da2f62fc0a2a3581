//! Decides when to request all clients: with 10,000 clients the response has several megabytes.
//!
//! ```text
//!               the status changed
//!   requested ─────────────────────▶ wanted ── no client is behind, 200 ms after the last request ──▶ requested
//!       ▲                               │
//!       └── 5 s after the last request ─┘      a client is behind all the time
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two requests: short for a person, and cheap for a control plane with thousands of clients.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// The same while the status says that clients are behind: the response would list them.
const INTERVAL_BEHIND: Duration = Duration::from_secs(5);

/// Decides when to request all clients.
#[derive(Debug)]
pub(super) struct RequestTimer {
    begun: Instant,
    last: Option<Instant>,
    is_wanted: bool,
    /// Whether the command waits for all resources, so that every client that is behind delays the request.
    of_all: bool,
}

impl RequestTimer {
    /// Returns a timer whose first request is due now. `of_all`: the command waits for all resources, not for one.
    pub(super) fn new(now: Instant, of_all: bool) -> Self {
        Self {
            begun: now,
            last: None,
            is_wanted: true,
            of_all,
        }
    }

    /// Notes that the state may have changed.
    pub(super) fn status_changed(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that the clients were requested.
    pub(super) fn requested(&mut self, now: Instant) {
        self.last = Some(now);
        self.is_wanted = false;
    }

    /// Returns when the next request is due if nothing changes; `None`: only after a change. `behind` is the number of
    /// clients that have not answered a change; 0 if it is not known.
    pub(super) fn due(&self, behind: usize) -> Option<Instant> {
        let due = match (self.of_all && behind > 0, self.last) {
            (true, last) => last.unwrap_or(self.begun) + INTERVAL_BEHIND,
            (false, Some(last)) => last + INTERVAL,
            (false, None) => self.begun,
        };
        self.is_wanted.then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of requests while the status changes each 10 ms.
    fn requests(changes: u32, of_all: bool, behind: impl Fn(u32) -> usize) -> usize {
        let mut now = Instant::now();
        let mut timer = RequestTimer::new(now, of_all);
        let mut count = 0;
        for change in 0..changes {
            timer.status_changed();
            let due = timer.due(behind(change));
            if due.is_some_and(|due| due <= now) {
                timer.requested(now);
                count += 1;
            }
            now += Duration::from_millis(10);
        }
        count
    }

    /// Given 10,000 clients that answer one after the other within 4 s, then one request is made: when none is behind.
    #[test]
    fn clients_are_requested_when_none_is_behind() {
        let behind = |change: u32| 10_000_usize.saturating_sub(change as usize * 25);
        assert_eq!(requests(401, true, behind), 1);
    }

    /// Given changes all the time, then there are five requests per second, and one every 5 s while a client is behind.
    #[test]
    fn clients_are_requested_at_a_bounded_rate() {
        assert_eq!(requests(1_000, true, |_| 0), 50);
        assert_eq!(requests(2_000, true, |_| 1), 3);
        assert_eq!(requests(1_000, false, |_| 1), 50, "of one resource");
    }

    #[test]
    fn clients_are_not_requested_again_without_a_change() {
        let now = Instant::now();
        let mut timer = RequestTimer::new(now, true);
        assert_eq!(timer.due(0), Some(now));
        timer.requested(now);
        assert_eq!(timer.due(0), None);
        timer.status_changed();
        assert_eq!(timer.due(0), Some(now + INTERVAL));
    }
}
