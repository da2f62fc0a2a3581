//! Memory of a channel for the messages of RPCs that may be retried (gRFC A6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for the messages of one RPC that may be retried: the default of gRPC C-core and Go.
pub(crate) const CALL_LIMIT: usize = 256 * 1024;

/// Memory for the messages of all RPCs of a channel that may be retried: the default of gRPC Java.
pub(crate) const CHANNEL_LIMIT: usize = 16 * 1024 * 1024;

/// Memory that a channel uses for retries, and its limits in bytes.
#[derive(Debug)]
pub(crate) struct RetryMemory {
    per_call: usize,
    per_channel: usize,
    used: AtomicUsize,
}

impl RetryMemory {
    pub(crate) fn new(per_call: usize, per_channel: usize) -> Arc<Self> {
        Arc::new(Self {
            per_call,
            per_channel,
            used: AtomicUsize::new(0),
        })
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Memory that one RPC uses; the drop releases it.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<RetryMemory>,
    bytes: usize,
}

impl Reservation {
    pub(crate) fn new(memory: &Arc<RetryMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes: 0,
        }
    }

    /// Reserves more memory. Returns false, and reserves nothing, if it is above a limit.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let memory = &self.memory;
        if self.bytes.saturating_add(bytes) > memory.per_call {
            return false;
        }
        let before = memory.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > memory.per_channel {
            memory.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
