//! Sums of the responses that a swarm has received.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::scanner::Seen;

/// Sums over all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) messages: u64,
    pub(crate) resources: u64,
    /// Resources larger than [`LARGE`](super::super::resources::LARGE).
    pub(crate) large: u64,
    /// Streams that have accepted all [`MARKED`](super::super::resources::MARKED) resources of the change.
    pub(crate) complete: u64,
    /// Bytes of responses.
    pub(crate) bytes: u64,
    /// ACKs and NACKs.
    pub(crate) answers: u64,
}

/// Shared by the streams of a swarm, which add, and its scenario, which waits.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sums: Mutex<Sums>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Sums {
    counted: Counted,
    arrivals: Vec<Instant>,
    last_answer: Option<Instant>,
    /// Reason why the first stream ended that did.
    end: Option<String>,
}

impl Tally {
    pub(super) fn add(&self, seen: &Seen) {
        let mut sums = self.lock();
        sums.counted.messages += 1;
        sums.counted.resources += seen.resources as u64;
        sums.counted.bytes += seen.bytes as u64;
        sums.counted.large += seen.large as u64;
        sums.arrivals.push(Instant::now());
        drop(sums);
        self.added.notify_one();
    }

    /// Counts a stream that has accepted all marked resources.
    pub(super) fn completed(&self) {
        self.lock().counted.complete += 1;
        self.added.notify_one();
    }

    /// Counts an answer that was sent.
    pub(super) fn answered(&self) {
        let mut sums = self.lock();
        sums.counted.answers += 1;
        sums.last_answer = Some(Instant::now());
        drop(sums);
        self.added.notify_one();
    }

    pub(super) fn last_answer(&self) -> Option<Instant> {
        self.lock().last_answer
    }

    pub(super) fn ended(&self, why: String) {
        let mut sums = self.lock();
        sums.end.get_or_insert(why);
        drop(sums);
        self.added.notify_one();
    }

    pub(super) fn read(&self) -> Counted {
        self.lock().counted
    }

    pub(super) fn take_arrivals(&self) -> Vec<Instant> {
        std::mem::take(&mut self.lock().arrivals)
    }

    /// Waits until it is `enough`; returns the time of the last response. The error is the sums after `limit`.
    pub(super) async fn until(
        &self,
        limit: Duration,
        enough: impl Fn(&Counted) -> bool,
    ) -> Result<Instant, String> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            {
                let sums = self.lock();
                if let Some(why) = &sums.end {
                    return Err(format!("a stream ended: {why}"));
                }
                if enough(&sums.counted) {
                    return Ok(sums.arrivals.last().copied().unwrap_or_else(Instant::now));
                }
            }
            if tokio::time::timeout_at(deadline, self.added.notified())
                .await
                .is_err()
            {
                return Err(format!("not within {limit:?}: {:?}", self.read()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
