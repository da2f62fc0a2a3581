//! Limit of concurrent requests: the circuit breaker of gRFC A32.
//!
//! ```text
//!  RequestCount (one per cluster and EDS service name) ─ try_begin(limit) ─► RequestPermit ─ drop ─► one less
//!                                                            │ limit reached
//!                                                            └──────────► None: the RPC is dropped
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of requests to a cluster that are in progress. All channels of a process share it (gRFC A32).
#[derive(Debug, Default)]
pub struct RequestCount(AtomicU32);

/// A request in progress; the drop ends it.
#[derive(Debug)]
#[must_use = "the request counts as ended when this is dropped"]
pub struct RequestPermit(Arc<RequestCount>);

impl RequestCount {
    /// Counts the start of a request. Returns `None` if `limit` requests are in progress: never more than that hold a
    /// permit.
    pub fn try_begin(self: &Arc<Self>, limit: u32) -> Option<RequestPermit> {
        // gRFC A32: every request is counted, and the one that finds the limit reached is dropped (C-246). A failed
        // attempt is undone, so that it cannot block others for long.
        if self.0.fetch_add(1, Ordering::Relaxed) < limit {
            return Some(RequestPermit(Arc::clone(self)));
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Returns the number of requests in progress.
    #[must_use]
    pub fn in_progress(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
