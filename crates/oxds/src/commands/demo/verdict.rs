//! Comparison of the counted calls with the planned shares.
//!
//! If each of `n` calls goes to an endpoint with probability `p`, the expected count is `n·p`, with a
//! standard deviation of `√(n·p·(1−p))`. A count agrees if it is within 4.5 standard deviations (plus
//! one call, for tiny `n`). Chance alone exceeds that once in 147,000 counts, so a demo of ten endpoints
//! fails by chance about once in 15,000 runs. A split of 85/15 instead of 90/10 is detected almost
//! certainly from 3,000 calls on. Round robin spreads calls more evenly than chance, so its counts agree
//! more easily. An endpoint with share 0 (a standby) must have no calls.

use super::plan::{PlannedService, TrafficPlan};
use super::tally::{ServiceTally, Tally};
use crate::terminal::Style;

/// Allowed deviation, in standard deviations.
const BOUND: f64 = 4.5;

/// Result of the comparison for all services.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    calls: u64,
    deviations: Vec<String>,
}

impl Verdict {
    /// Compares the tally with the plan.
    pub(super) fn of(plan: &TrafficPlan, tally: &Tally) -> Self {
        let mut verdict = Self::default();
        for service in &plan.services {
            match tally.service(&service.name) {
                Some(calls) => verdict.compare(service, calls),
                None => verdict.add(service, "no call completed"),
            }
        }
        verdict
    }

    pub(super) fn is_good(&self) -> bool {
        self.deviations.is_empty()
    }

    pub(super) fn text(&self, style: Style) -> String {
        if self.is_good() {
            let calls = self.calls;
            return format!(
                "{}: {calls} calls, 0 failed; the share of every endpoint is within {BOUND} standard \
                 deviations\n(chance alone exceeds that once in 147,000).\n",
                style.green("as configured")
            );
        }
        let deviations = self
            .deviations
            .iter()
            .map(|deviation| format!("  {deviation}\n"));
        format!(
            "{}:\n{}",
            style.red("not as configured"),
            deviations.collect::<String>()
        )
    }

    fn compare(&mut self, service: &PlannedService, calls: &ServiceTally) {
        let total = calls.total();
        self.calls += total;
        if calls.failed > 0 {
            let reason = calls.failed_since(None).unwrap_or_default();
            self.add(
                service,
                &format!("{} calls failed, last error {reason}", calls.failed),
            );
        }
        let endpoints = match &service.endpoints {
            Ok(endpoints) => endpoints,
            Err(reason) => return self.add(service, reason),
        };
        if total == 0 {
            let text = "no call measured: calls of the first second after a change do not count";
            return self.add(service, text);
        }
        for endpoint in endpoints {
            let count = calls.measured(endpoint.address);
            if !agrees(count, total, endpoint.share) {
                let (expected, allowance) = (
                    as_f64(total) * endpoint.share,
                    allowance(total, endpoint.share),
                );
                self.add(
                    service,
                    &format!(
                        "{} got {count} of {total} calls: expected {expected:.0} ± {allowance:.0}",
                        endpoint.address
                    ),
                );
            }
        }
        for address in calls.called_endpoints() {
            if endpoints.iter().all(|endpoint| endpoint.address != address) {
                let count = calls.measured(address);
                self.add(
                    service,
                    &format!("{address} got {count} calls: expected none, it is not configured"),
                );
            }
        }
    }

    fn add(&mut self, service: &PlannedService, deviation: &str) {
        self.deviations
            .push(format!("xds:///{}: {deviation}", service.name));
    }
}

/// Returns the allowed difference between a count and its expected value.
fn allowance(calls: u64, share: f64) -> f64 {
    if share <= 0.0 {
        return 0.0;
    }
    BOUND * (as_f64(calls) * share * (1.0 - share).max(0.0)).sqrt() + 1.0
}

/// Returns whether `count` of `calls` agrees with `share`.
pub(super) fn agrees(count: u64, calls: u64, share: f64) -> bool {
    (as_f64(count) - as_f64(calls) * share).abs() <= allowance(calls, share)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a demo makes far fewer than 2^52 calls"
)]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_within_bound_agree() {
        assert!(agrees(9_000, 10_000, 0.9));
        // 4.5 · √(10,000 · 0.9 · 0.1) = 135.
        assert!(agrees(8_866, 10_000, 0.9));
        assert!(!agrees(8_863, 10_000, 0.9));
    }

    #[test]
    fn wrong_split_is_detected() {
        assert!(!agrees(2_550, 3_000, 0.9), "85/15 instead of 90/10");
        assert!(!agrees(1_500, 3_000, 0.9), "no weights at all");
    }

    #[test]
    fn standby_must_have_no_calls() {
        assert!(agrees(0, 1_000, 0.0));
        assert!(!agrees(1, 1_000, 0.0));
    }

    #[test]
    fn single_endpoint_must_have_all_calls() {
        assert!(agrees(1_000, 1_000, 1.0));
        assert!(!agrees(990, 1_000, 1.0));
    }
}
