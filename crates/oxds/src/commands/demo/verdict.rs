//! Whether counts agree with shares.
//!
//! Of `n` calls that each go to an endpoint with probability `p`, `n·p` are expected there, with a
//! standard deviation of `√(n·p·(1−p))`. A count agrees when it is within 4.5 of these (and one
//! call, for tiny `n`). Chance alone breaks that once in 147,000 counts, so a demo of ten endpoints
//! fails without cause about once in 15,000 runs; a split of 85/15 instead of 90/10 is found with
//! near certainty from 3,000 calls on. Round robin spreads more evenly than chance, and passes the more
//! easily. An endpoint without a share (a reserve) must have no calls at all.

use super::plan::{Plan, Service};
use super::tally::{Calls, Tally};
use crate::terminal::Style;

/// In standard deviations.
const BOUND: f64 = 4.5;

/// What the demo comes to.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    calls: u64,
    complaints: Vec<String>,
}

impl Verdict {
    pub(super) fn of(plan: &Plan, tally: &Tally) -> Self {
        let mut verdict = Self::default();
        for service in &plan.services {
            match tally.service(&service.name) {
                Some(calls) => verdict.judge(service, calls),
                None => verdict.complain(service, "no call ended"),
            }
        }
        verdict
    }

    pub(super) fn is_good(&self) -> bool {
        self.complaints.is_empty()
    }

    pub(super) fn text(&self, style: Style) -> String {
        if self.is_good() {
            let calls = self.calls;
            return format!(
                "{}: {calls} calls, none failed; every endpoint had its share, within {BOUND} standard \
                 deviations\n(chance alone exceeds that once in 147,000).\n",
                style.green("as configured")
            );
        }
        let complaints = self
            .complaints
            .iter()
            .map(|complaint| format!("  {complaint}\n"));
        format!(
            "{}:\n{}",
            style.red("not as configured"),
            complaints.collect::<String>()
        )
    }

    fn judge(&mut self, service: &Service, calls: &Calls) {
        let total = calls.total();
        self.calls += total;
        if calls.failed > 0 {
            let why = calls.failed_since(None).unwrap_or_default();
            self.complain(
                service,
                &format!("{} calls failed, the last with {why}", calls.failed),
            );
        }
        let endpoints = match &service.endpoints {
            Ok(endpoints) => endpoints,
            Err(why) => return self.complain(service, why),
        };
        if total == 0 {
            return self.complain(
                service,
                "no call was measured: the first second does not count",
            );
        }
        for endpoint in endpoints {
            let count = calls.measured(endpoint.address);
            if !agrees(count, total, endpoint.share) {
                let (wanted, allowance) = (
                    as_f64(total) * endpoint.share,
                    allowance(total, endpoint.share),
                );
                self.complain(
                    service,
                    &format!(
                        "{} had {count} of {total} calls, wanted {wanted:.0} ± {allowance:.0}",
                        endpoint.address
                    ),
                );
            }
        }
        for address in calls.answered_by() {
            if endpoints.iter().all(|endpoint| endpoint.address != address) {
                let count = calls.measured(address);
                self.complain(
                    service,
                    &format!("{address} had {count} calls and is not configured"),
                );
            }
        }
    }

    fn complain(&mut self, service: &Service, what: &str) {
        self.complaints
            .push(format!("xds:///{}: {what}", service.name));
    }
}

/// How far a count may lie from what is expected of `calls`.
fn allowance(calls: u64, share: f64) -> f64 {
    if share <= 0.0 {
        return 0.0;
    }
    BOUND * (as_f64(calls) * share * (1.0 - share).max(0.0)).sqrt() + 1.0
}

/// Whether `count` of `calls` agrees with `share`.
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
    fn chance_is_allowed_for() {
        assert!(agrees(9_000, 10_000, 0.9));
        // 4.5 · √(10,000 · 0.9 · 0.1) = 135.
        assert!(agrees(8_866, 10_000, 0.9));
        assert!(!agrees(8_863, 10_000, 0.9));
    }

    #[test]
    fn a_split_that_is_off_is_found() {
        assert!(!agrees(2_550, 3_000, 0.9), "85/15 instead of 90/10");
        assert!(!agrees(1_500, 3_000, 0.9), "no weights at all");
    }

    #[test]
    fn a_reserve_has_no_calls() {
        assert!(agrees(0, 1_000, 0.0));
        assert!(!agrees(1, 1_000, 0.0));
    }

    #[test]
    fn the_only_endpoint_has_all_calls() {
        assert!(agrees(1_000, 1_000, 1.0));
        assert!(!agrees(990, 1_000, 1.0));
    }
}
