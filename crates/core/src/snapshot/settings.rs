//! Revisions and limits, and what all snapshots of one lineage share.

use std::sync::Arc;

use super::awaited::AwaitedContent;
use super::counters::WorkCounters;
use super::resource_errors::ResourceErrors;

/// Number of a state in one lineage of snapshots. Each state that differs from the one before has the next number.
///
/// It counts within one process and is never sent to a client; versions are (S-29).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// Revision before anything was loaded.
    pub const UNLOADED: Self = Self(0);

    /// Returns the number, for logs and metrics.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Limits on what a lineage of snapshots keeps and sends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Names that the change log of a type keeps.
    ///
    /// Beyond it, finding the changes costs a walk over the parts that two maps do not share. A session that is so far
    /// behind is rare, and is about to be sent far more than that. The default, 16,384, takes 400 KB per type.
    pub log_names: usize,
    /// Differences between older states and the current one that are kept for sessions that fell behind. Sessions fall
    /// behind together (a burst, a pause), so a few differences serve them all: 32.
    pub differences: usize,
    /// Size in bytes at which a response is split (S-50). A response with a single larger resource may exceed it.
    ///
    /// A SotW response of LDS or CDS cannot be split: resources that it leaves out are removed. gRPC's default limit
    /// for a received message is 4 MiB; this stays well below it.
    pub message_bytes: usize,
    /// Earlier states of a type that are kept for SotW clients that return with their version: 64.
    pub history: usize,
    /// Resources that the changes between those states replaced. They are kept, too: 4,096.
    pub history_names: usize,
}

impl Limits {
    /// Returns the size that resources and removals may take. The rest is for type URL, version, nonce and control
    /// plane.
    pub(super) fn body_bytes(&self) -> usize {
        self.message_bytes.saturating_sub(256)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log_names: 16_384,
            differences: 32,
            message_bytes: 3_500_000,
            history: 64,
            history_names: 4_096,
        }
    }
}

/// State that all snapshots of a lineage share.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) counters: Arc<WorkCounters>,
    pub(super) errors: Arc<ResourceErrors>,
    pub(super) awaited: Arc<AwaitedContent>,
    /// Whether several sessions are likely to need the complete state.
    ///
    /// There may be as many groups as clients. A shared body for each group, which no second session takes, would be
    /// most of the memory (P-12).
    pub(super) is_shared: bool,
}
