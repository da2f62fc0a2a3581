//! Timers that may be off, and times that no clock can count to.

use std::time::Duration;

use oxds_core::time;
use tokio::time::Instant;

/// Longest wait: about 30 years, as in tokio. It replaces waits that are too long for the clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Returns the time of a state machine on tokio's clock. `epoch` is the start of the machine's clock.
pub(crate) fn at(epoch: Instant, time: time::Instant) -> Instant {
    after(epoch, time.since_epoch())
}

/// Returns the time after a wait, however long it is.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start.checked_add(wait).unwrap_or_else(|| start + FAR)
}

/// Waits until a time; without one, never completes. Cancel-safe.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_the_machines_clock_is_a_time() {
        let epoch = Instant::now();
        let end = at(epoch, time::Instant::from_epoch(Duration::MAX));
        assert!(end - epoch >= FAR);
        let longest = at(epoch, time::Instant::EPOCH + time::LONGEST_DURATION);
        assert_eq!(longest - epoch, time::LONGEST_DURATION);
        for time in [end, longest] {
            tokio::select! {
                biased;
                () = sleep_until(Some(time)) => panic!("it is not due"),
                () = std::future::ready(()) => {}
            }
        }
    }
}
