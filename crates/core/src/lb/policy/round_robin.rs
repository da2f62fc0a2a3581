//! Round robin: the ready children in turn (gRFC A27, A61).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::view::Pick;

/// Ready children, picked in turn; at least one.
#[derive(Debug)]
pub(super) struct RoundRobinPicker {
    ready: Box<[u32]>,
    next: AtomicUsize,
}

impl RoundRobinPicker {
    /// Returns `None` without ready children.
    pub(super) fn new(ready: Box<[u32]>, random: u64) -> Option<Self> {
        let start = random as usize % ready.len().max(1);
        (!ready.is_empty()).then(|| Self {
            ready,
            // gRFC A27, A61: round robin starts at a random endpoint, otherwise all clients would call the first
            // endpoint at the same time (C-247).
            next: AtomicUsize::new(start),
        })
    }

    pub(super) fn pick(&self) -> Pick {
        // Relaxed: only the number of picks matters, not their order.
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.ready.len();
        Pick::Child(self.ready[next] as usize)
    }
}
