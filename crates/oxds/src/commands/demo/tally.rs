//! Counts of the demo's calls, per service and endpoint.
//!
//! ```text
//!   change ──── 1 s ────► measured from here on ─────────────────► next change
//!            (settling)   shares are compared with the plan
//! ```
//!
//! Calls that began before a change, or within [`SETTLE`] after it, count for the rates but not for the
//! shares: the demo promises that traffic follows a change within that time, and later deviations fail
//! the verdict.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a change to reach the client, and for its new connections.
pub(super) const SETTLE: Duration = Duration::from_secs(1);
/// Number of [`TICK`]s that are kept; rates are over the complete ones.
const WINDOW: usize = 4;
/// Period in which [`Tally::tick`] must be called.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// Counts of all services.
#[derive(Debug)]
pub(super) struct Tally {
    measured_from: Instant,
    services: BTreeMap<Arc<str>, ServiceTally>,
}

/// Counts of one service.
#[derive(Debug, Default)]
pub(super) struct ServiceTally {
    endpoints: BTreeMap<SocketAddr, EndpointTally>,
    /// Failed calls since the start; changes do not reset it, because no call may fail during a change.
    pub(super) failed: u64,
    last_failure: Option<(Instant, String)>,
}

/// Counts of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct EndpointTally {
    /// Calls that began later than [`SETTLE`] after the last change.
    measured: u64,
    /// Calls per tick, the newest first.
    recent: [u64; WINDOW],
}

impl Tally {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            measured_from: now + SETTLE,
            services: BTreeMap::new(),
        }
    }

    /// Resets the measurement, because the configuration changed.
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

    /// Counts a successful call to `endpoint`.
    pub(super) fn succeeded(&mut self, service: &Arc<str>, endpoint: SocketAddr, began: Instant) {
        let measured = began >= self.measured_from;
        let count = self.of(service).endpoints.entry(endpoint).or_default();
        count.recent[0] += 1;
        count.measured += u64::from(measured);
    }

    /// Counts a failed call.
    pub(super) fn failed(&mut self, service: &Arc<str>, now: Instant, reason: String) {
        let calls = self.of(service);
        calls.failed += 1;
        calls.last_failure = Some((now, reason));
    }

    fn of(&mut self, service: &Arc<str>) -> &mut ServiceTally {
        self.services.entry(Arc::clone(service)).or_default()
    }

    /// Starts the next period of the rates. Call it every [`TICK`].
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

    /// Returns the counts of a service, if it was called.
    pub(super) fn service(&self, name: &str) -> Option<&ServiceTally> {
        self.services.get(name)
    }
}

impl ServiceTally {
    /// Returns the number of measured calls.
    pub(super) fn total(&self) -> u64 {
        self.endpoints.values().map(|count| count.measured).sum()
    }

    /// Returns the number of measured calls to this endpoint.
    pub(super) fn measured(&self, endpoint: SocketAddr) -> u64 {
        self.endpoints
            .get(&endpoint)
            .map_or(0, |count| count.measured)
    }

    /// Returns the current calls per second of this endpoint, over the complete ticks.
    pub(super) fn rate(&self, endpoint: SocketAddr) -> u64 {
        let Some(count) = self.endpoints.get(&endpoint) else {
            return 0;
        };
        let calls: u64 = count.recent[1..].iter().sum();
        let window = TICK * u32::try_from(WINDOW - 1).unwrap_or(1);
        let millis = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        calls * 1_000 / millis.max(1)
    }

    /// Returns the reason of the last failed call, if it failed at `then` or later.
    pub(super) fn failed_since(&self, then: Option<Instant>) -> Option<&str> {
        let (at, reason) = self.last_failure.as_ref()?;
        then.is_none_or(|then| *at >= then).then_some(reason)
    }

    /// Returns all endpoints with a measured call.
    pub(super) fn called_endpoints(&self) -> impl Iterator<Item = SocketAddr> {
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
    fn calls_before_settle_time_are_not_measured() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        tally.succeeded(&shop, endpoint(1), start);
        assert_eq!(tally.service("shop").unwrap().total(), 0);
        tally.succeeded(&shop, endpoint(1), start + SETTLE);
        assert_eq!(tally.service("shop").unwrap().measured(endpoint(1)), 1);
        tally.change(start + SETTLE * 2);
        tally.succeeded(&shop, endpoint(2), start + SETTLE * 2);
        assert_eq!(tally.service("shop").unwrap().total(), 0);
    }

    #[test]
    fn failures_survive_changes() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        tally.failed(&shop, start, "no route".to_owned());
        tally.change(start);
        assert_eq!(tally.service("shop").unwrap().failed, 1);
    }

    #[test]
    fn rates_are_per_second_over_recent_ticks() {
        let (start, shop) = (Instant::now(), Arc::from("shop"));
        let mut tally = Tally::new(start);
        for _ in 0..3 {
            (0..25).for_each(|_| tally.succeeded(&shop, endpoint(1), start));
            tally.tick();
        }
        assert_eq!(tally.service("shop").unwrap().rate(endpoint(1)), 100);
        (0..3).for_each(|_| tally.tick());
        assert_eq!(tally.service("shop").unwrap().rate(endpoint(1)), 0);
    }
}
