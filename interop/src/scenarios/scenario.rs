//! A named scenario, and the deadlines that all share.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::calls::{Calls, Counts};
use crate::{Context, Fallible};

/// Deadline of everything that must happen: many times its usual duration, for a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(20);
/// Longer than the sum of the deadlines that a passing scenario can meet; a hang ends here.
const LIMIT: Duration = Duration::from_secs(180);
/// Number of calls in a row that must agree before traffic counts as moved.
pub(super) const SETTLED: usize = 60;

/// Waits until exactly `backends` answer these calls, or this traffic.
pub(super) async fn only_at(calls: &Calls, what: &str, backends: &[&str]) -> Fallible {
    let what = format!("{what} at {backends:?} only");
    let only = |counts: &Counts| counts.only(backends);
    calls.settle(&what, SETTLED, SOON, only).await?;
    Ok(())
}

/// A named scenario.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn(Context) -> Ending>,
    /// Time after which it hangs.
    pub(crate) limit: Duration,
}

/// Future of a scenario's result. It stays on the runner's own thread, so it need not be `Send`.
pub(super) type Ending = Pin<Box<dyn Future<Output = Fallible>>>;

impl Scenario {
    pub(super) fn new<F>(name: String, run: impl Fn(Context) -> F + 'static) -> Self
    where
        F: Future<Output = Fallible> + 'static,
    {
        Self {
            name,
            run: Box::new(move |context| Box::pin(run(context))),
            limit: LIMIT,
        }
    }

    /// Gives it another limit.
    pub(super) fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
