//! Streams that may be open on a connection at the same time, and the RPCs that wait for one.
//!
//! ```text
//!            free slot                    stream ended, no RPC waits
//!  RPC ───────────────────▶ slot taken ─────────────────────────────▶ slot free
//!   │ no free slot             ▲    │ stream ended, RPCs wait
//!   └────────▶ waiting ────────┘◀───┘
//!                first in, first out
//! ```
//!
//! The RPCs wait here and not in the HTTP/2 library, which would open a stream also for an RPC that was cancelled while
//! it waited.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Semaphore;

/// The streams of one connection, limited by the server's `MAX_CONCURRENT_STREAMS`.
#[derive(Debug)]
pub(super) struct StreamSlots {
    /// `u32::MAX` if there is no limit; then nothing is counted.
    max: u32,
    taken: AtomicU32,
    waiting: AtomicU32,
    /// Slots that were taken over from ended streams for RPCs that wait. Closed with the connection.
    handed_over: Semaphore,
}

/// Counts an RPC that waits, until dropped.
struct Waiting<'a>(&'a AtomicU32);

impl StreamSlots {
    pub(super) fn new(max: u32) -> Self {
        Self {
            max,
            taken: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            handed_over: Semaphore::new(0),
        }
    }

    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// Takes a slot, and waits for it if necessary. Returns false if the connection takes no more requests.
    ///
    /// Cancel-safe: an RPC that stops waiting leaves its place to the next one.
    pub(super) async fn take(&self) -> bool {
        if self.max == u32::MAX {
            return true;
        }
        if self.waiting.load(Ordering::SeqCst) == 0 && self.take_free() {
            return true;
        }
        let _waiting = Waiting::new(&self.waiting);
        // A stream that ended just before saw no RPC waiting.
        if self.take_free() {
            return true;
        }
        match self.handed_over.acquire().await {
            Ok(slot) => {
                slot.forget();
                true
            }
            Err(_closed) => false,
        }
    }

    /// Gives a slot back.
    pub(super) fn release(&self) {
        if self.max == u32::MAX {
            return;
        }
        // The order of both operations matters: either this sees the RPC waiting, or that RPC sees the free slot.
        self.taken.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 && self.take_free() {
            self.handed_over.add_permits(1);
        }
    }

    /// Ends all waits: the connection takes no more requests.
    pub(super) fn close(&self) {
        self.handed_over.close();
    }

    fn take_free(&self) -> bool {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.is_ok()
    }
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Polls once.
    macro_rules! poll {
        ($future:expr) => {
            $future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        };
    }

    #[test]
    fn a105_rpcs_wait_in_order_for_streams_to_end() {
        let slots = StreamSlots::new(1);
        assert_eq!(poll!(pin!(slots.take())), Poll::Ready(true));
        let mut first = pin!(slots.take());
        let mut second = pin!(slots.take());
        assert!(poll!(first).is_pending());
        assert!(poll!(second).is_pending());
        slots.release();
        assert!(poll!(second).is_pending());
        assert_eq!(poll!(first), Poll::Ready(true));
        // A new RPC does not overtake the one that waits.
        let mut third = pin!(slots.take());
        assert!(poll!(third).is_pending());
        slots.release();
        assert_eq!(poll!(second), Poll::Ready(true));
        assert!(poll!(third).is_pending());
    }

    #[test]
    fn a105_cancelled_wait_leaves_its_slot_to_the_next() {
        let slots = StreamSlots::new(1);
        assert_eq!(poll!(pin!(slots.take())), Poll::Ready(true));
        let mut cancelled = Box::pin(slots.take());
        assert!(poll!(cancelled).is_pending());
        slots.release();
        drop(cancelled);
        // The slot was handed over already, and is not lost.
        assert_eq!(poll!(pin!(slots.take())), Poll::Ready(true));
        assert!(poll!(pin!(slots.take())).is_pending());
        slots.release();
        assert_eq!(poll!(pin!(slots.take())), Poll::Ready(true));
    }

    #[test]
    fn a105_closed_connection_ends_all_waits() {
        let slots = StreamSlots::new(0);
        let mut waiting = pin!(slots.take());
        assert!(poll!(waiting).is_pending());
        slots.close();
        assert_eq!(poll!(waiting), Poll::Ready(false));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a105_limit_holds_and_no_wakeup_is_lost() {
        const MAX: u32 = 3;
        let slots = Arc::new(StreamSlots::new(MAX));
        let open = Arc::new(AtomicU32::new(0));
        let rpcs: Vec<_> = (0..16)
            .map(|_| {
                let (slots, open) = (Arc::clone(&slots), Arc::clone(&open));
                tokio::spawn(async move {
                    for _ in 0..500 {
                        assert!(slots.take().await);
                        assert!(open.fetch_add(1, Ordering::SeqCst) < MAX);
                        tokio::task::yield_now().await;
                        open.fetch_sub(1, Ordering::SeqCst);
                        slots.release();
                    }
                })
            })
            .collect();
        for rpc in rpcs {
            let rpc = tokio::time::timeout(std::time::Duration::from_secs(60), rpc);
            rpc.await.expect("no wait is endless").unwrap();
        }
    }
}
