//! What became of the calls.
//!
//! ```text
//!   change ──── 1 s ────► measured from here on ─────────────────► next change
//!            (settling)   shares are compared with the plan
//! ```
//!
//! Calls that began before a change, or within [`SETTLE`] after it, count towards the rates but not
//! towards the shares: the demo promises that traffic follows within that time, and holds itself
//! to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a change to reach the client, and for connections to be made.
pub(super) const SETTLE: Duration = Duration::from_secs(1);
/// Rates are over this many of the latest [`TICK`]s.
const WINDOW: usize = 4;
/// How often [`Tally::tick`] is to be called.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// Counts of all services.
#[derive(Debug)]
pub(super) struct Tally {
    measured_from: Instant,
    services: BTreeMap<Arc<str>, Calls>,
}

/// Counts of one service.
#[derive(Debug, Default)]
pub(super) struct Calls {
    endpoints: BTreeMap<SocketAddr, Count>,
    /// Since the start: no call may be lost, change or no change.
    pub(super) failed: u64,
    last_failure: Option<(Instant, String)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Since the last change settled.
    measured: u64,
    /// By tick, the newest first.
    recent: [u64; WINDOW],
}

impl Tally {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            measured_from: now + SETTLE,
            services: BTreeMap::new(),
        }
    }

    /// The configuration changed: what was measured so far says nothing about it.
    pub(super) fn change(&mut self, now: Instant) {
        self.measured_from = now + SETTLE;
        let counts = self
            .services
            .values_mut()
            .flat_map(|calls| calls.endpoints.values_mut());
        for count in counts {
            count.measured = 0;
        }
    }

    /// A call that `endpoint` answered.
    pub(super) fn answered(&mut self, service: &Arc<str>, endpoint: SocketAddr, began: Instant) {
        let measured = began >= self.measured_from;
        let count = self.of(service).endpoints.entry(endpoint).or_default();
        count.recent[0] += 1;
        count.measured += u64::from(measured);
    }

    /// A call that failed.
    pub(super) fn failed(&mut self, service: &Arc<str>, now: Instant, why: String) {
        let calls = self.of(service);
        calls.failed += 1;
        calls.last_failure = Some((now, why));
    }

    fn of(&mut self, service: &Arc<str>) -> &mut Calls {
        self.services.entry(Arc::clone(service)).or_default()
    }

    /// [`TICK`] has passed.
    pub(super) fn tick(&mut self) {
        let counts = self
            .services
            .values_mut()
            .flat_map(|calls| calls.endpoints.values_mut());
        for count in counts {
            count.recent.rotate_right(1);
            count.recent[0] = 0;
        }
    }

    /// The counts of a service, if it was called.
    pub(super) fn service(&self, name: &str) -> Option<&Calls> {
        self.services.get(name)
    }
}

impl Calls {
    /// Measured calls.
    pub(super) fn total(&self) -> u64 {
        self.endpoints.values().map(|count| count.measured).sum()
    }

    /// Measured calls that this endpoint answered.
    pub(super) fn measured(&self, endpoint: SocketAddr) -> u64 {
        self.endpoints
            .get(&endpoint)
            .map_or(0, |count| count.measured)
    }

    /// Calls per second that this endpoint answers at present; the tick under way is left out.
    pub(super) fn rate(&self, endpoint: SocketAddr) -> u64 {
        let Some(count) = self.endpoints.get(&endpoint) else {
            return 0;
        };
        let calls: u64 = count.recent[1..].iter().sum();
        let window = TICK * u32::try_from(WINDOW - 1).unwrap_or(1);
        let millis = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        calls * 1_000 / millis.max(1)
    }

    /// Why the last failed call failed, if that was no earlier than `then`.
    pub(super) fn failed_since(&self, then: Option<Instant>) -> Option<&str> {
        let (at, why) = self.last_failure.as_ref()?;
        then.is_none_or(|then| *at >= then).then_some(why)
    }

    /// All endpoints that answered a measured call.
    pub(super) fn answered_by(&self) -> impl Iterator<Item = SocketAddr> {
        let counts = self.endpoints.iter();
        counts
            .filter(|(_, count)| count.measured > 0)
            .map(|(endpoint, _)| *endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn calls_that_began_before_a_change_settled_are_not_measured() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        tally.answered(&shop, endpoint(1), start);
        assert_eq!(tally.service("shop").unwrap().total(), 0);
        tally.answered(&shop, endpoint(1), start + SETTLE);
        assert_eq!(tally.service("shop").unwrap().measured(endpoint(1)), 1);
        tally.change(start + SETTLE * 2);
        tally.answered(&shop, endpoint(2), start + SETTLE * 2);
        assert_eq!(tally.service("shop").unwrap().total(), 0);
    }

    #[test]
    fn failures_outlive_changes() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        tally.failed(&shop, start, "no route".to_owned());
        tally.change(start);
        assert_eq!(tally.service("shop").unwrap().failed, 1);
    }

    #[test]
    fn rates_are_per_second_and_fade() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        for _ in 0..3 {
            (0..25).for_each(|_| tally.answered(&shop, endpoint(1), start));
            tally.tick();
        }
        assert_eq!(tally.service("shop").unwrap().rate(endpoint(1)), 100);
        (0..3).for_each(|_| tally.tick());
        assert_eq!(tally.service("shop").unwrap().rate(endpoint(1)), 0);
    }
}
