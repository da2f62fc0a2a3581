//! How late this machine is: a bound on time says nothing about a program that gets no processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Sleep that is measured.
const STEP: Duration = Duration::from_millis(10);
/// Resolution of the runtime's timers.
const USUAL: Duration = Duration::from_millis(2);

/// Measures how late short sleeps end, until it is dropped.
#[derive(Debug)]
pub(super) struct Lateness {
    millis: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Lateness {
    pub(super) fn measure() -> Self {
        let millis = Arc::<AtomicU64>::default();
        let shared = Arc::clone(&millis);
        let task = tokio::spawn(async move {
            loop {
                let start = Instant::now();
                sleep(STEP).await;
                let late = start.elapsed().saturating_sub(STEP + USUAL);
                let late = u64::try_from(late.as_millis()).unwrap_or(0);
                shared.fetch_add(late, Ordering::Relaxed);
            }
        });
        Self { millis, task }
    }

    /// Returns the sum so far.
    pub(super) fn sum(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.task.abort();
    }
}
