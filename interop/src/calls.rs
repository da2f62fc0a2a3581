//! Results of the calls of a load generator: the backend that answered each, or the failure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Fallible;
use crate::wait::until;

/// Time that a call may take when many are awaited: 15 times the load generators' pace, for a busy machine.
const PER_CALL: Duration = Duration::from_millis(50);

/// A shared, growing record of outcomes, in the order in which the calls ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Outcome>>>);

/// The backend that answered, or the failure.
pub(crate) type Outcome = Result<String, String>;

/// The outcomes of a section of the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Calls answered, by backend.
    pub(crate) by_backend: BTreeMap<String, usize>,
    /// Messages of the failed calls.
    pub(crate) failures: Vec<String>,
}

impl Calls {
    /// Appends one outcome.
    pub(crate) fn record(&self, outcome: Outcome) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(outcome);
    }

    /// Current end of the record, for [`Calls::since`].
    pub(crate) fn mark(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Outcomes of calls that ended after `mark`.
    pub(crate) fn since(&self, mark: usize) -> Counts {
        let record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record.get(mark..).unwrap_or_default().iter().collect()
    }

    /// Waits for `n` more calls and counts them. They may take `limit` plus the time that `n` calls take at twenty per
    /// second.
    pub(crate) async fn next(&self, n: usize, limit: Duration) -> Fallible<Counts> {
        let mark = self.mark();
        let limit = limit + PER_CALL * u32::try_from(n)?;
        until(&format!("{n} more calls"), limit, async || {
            let ended = self.mark() - mark;
            if ended < n {
                Err(format!("{ended} so far").into())
            } else {
                Ok(Some(()))
            }
        })
        .await?;
        Ok(self.since(mark))
    }

    /// Waits until the last `n` calls, all later than this moment, satisfy `wanted`.
    pub(crate) async fn settle(
        &self,
        what: &str,
        n: usize,
        limit: Duration,
        wanted: impl Fn(&Counts) -> bool,
    ) -> Fallible<Counts> {
        let mark = self.mark();
        until(what, limit, async || {
            let tail = self.since(mark.max(self.mark().saturating_sub(n)));
            if tail.total() >= n && wanted(&tail) {
                Ok(Some(tail))
            } else {
                Err(tail.to_string().into())
            }
        })
        .await
    }

    /// Returns an error that shows the failed calls, if there are any.
    pub(crate) fn none_failed(&self) -> Fallible {
        self.none_failed_but(|_| false)
    }

    /// The same, but allows as many failures as calls can be in progress when a backend dies.
    pub(crate) fn at_most_failed(&self, limit: usize) -> Fallible {
        let counts = self.since(0);
        if counts.failures.len() <= limit {
            return Ok(());
        }
        Err(format!("more than {limit} calls failed: {counts}").into())
    }

    /// As [`none_failed`](Self::none_failed), but allows failures that no control plane can prevent.
    pub(crate) fn none_failed_but(&self, excused: impl Fn(&str) -> bool) -> Fallible {
        let mut counts = self.since(0);
        counts.failures.retain(|failure| !excused(failure));
        if counts.failures.is_empty() {
            return Ok(());
        }
        Err(format!("calls failed: {counts}").into())
    }
}

impl Counts {
    /// Calls, failed ones included.
    pub(crate) fn total(&self) -> usize {
        self.by_backend.values().sum::<usize>() + self.failures.len()
    }

    /// Whether no call failed, and exactly these backends answered.
    pub(crate) fn only(&self, backends: &[&str]) -> bool {
        self.failures.is_empty()
            && self.by_backend.len() == backends.len()
            && backends.iter().all(|b| self.by_backend.contains_key(*b))
    }

    /// Returns an error unless `backend` answered `share` of the calls. Four standard deviations are allowed: a correct
    /// picker exceeds them once in 16,000 runs.
    pub(crate) fn expect_share(&self, backend: &str, share: f64) -> Fallible {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let (total, got) = (
            self.total() as f64,
            self.by_backend.get(backend).copied().unwrap_or(0) as f64,
        );
        let slack = 4.0 * (total * share * (1.0 - share)).sqrt();
        if (got - total * share).abs() <= slack {
            return Ok(());
        }
        Err(format!("{backend}: wanted {share} of the calls ± {slack:.0}, got {self}").into())
    }
}

impl<'a> FromIterator<&'a Outcome> for Counts {
    fn from_iter<I: IntoIterator<Item = &'a Outcome>>(outcomes: I) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(backend) => *counts.by_backend.entry(backend.clone()).or_default() += 1,
                Err(failure) => counts.failures.push(failure.clone()),
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.total())?;
        for (backend, n) in &self.by_backend {
            write!(f, ", {backend} {n}")?;
        }
        if let Some(first) = self.failures.first() {
            write!(f, ", failed {}: {first}", self.failures.len())?;
        }
        Ok(())
    }
}
