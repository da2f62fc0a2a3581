//! Responses that a subscriber has received.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Clusters by name, with the text that each has in `alt_stat_name`: scenarios write there which publish it is of.
pub(crate) type Clusters = BTreeMap<String, String>;

/// One response as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) changed: Clusters,
    /// Delta only.
    pub(crate) removed: Vec<String>,
    /// Number of clusters that the client has after it.
    pub(crate) total: usize,
    /// Number of its stream: 1 for the first one.
    pub(crate) stream: u64,
    /// Number of the server's process, as the scenario counts them.
    pub(crate) process: u64,
}

/// Record of a client, which its stream fills.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) has: Clusters,
    /// Delta: versions of these clusters.
    pub(super) versions: BTreeMap<String, String>,
    pub(super) responses: Vec<Received>,
    stream: u64,
    process: u64,
}

impl Seen {
    pub(super) fn begin_stream(&mut self, process: u64) {
        self.stream += 1;
        self.process = process;
    }

    /// Adds a response, which `has` contains already.
    pub(super) fn record(&mut self, received: Received) {
        self.responses.push(Received {
            total: self.has.len(),
            stream: self.stream,
            process: self.process,
            ..received
        });
    }
}

pub(super) fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
