//! Events of a publisher.

use std::sync::Arc;

use super::error::PublishError;
use super::summary::Summary;
use crate::entry::Entry;
use crate::names::{PublishId, Segment};
use crate::stored::Stored;

/// Event for the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishEvent {
    /// The whole state that would be served must be checked; then call
    /// [`handle_verdict`](super::Publisher::handle_verdict) (G-12). Nothing happens before.
    Validate(MergedState),
    /// A publish that another writer had not finished was finished.
    Completed {
        /// The publish.
        publish: PublishId,
        /// User and machine of its writer.
        by: String,
    },
    /// The stage of a publish that never happened was deleted: its writer is gone.
    Undone {
        /// The publish.
        publish: PublishId,
    },
    /// The publisher has ended.
    Done(Result<PublishOutcome, PublishError>),
}

/// State of all lanes after the publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedState {
    /// Entries by lane.
    pub entries: Vec<(Segment, Entry, Arc<Stored>)>,
    /// Keys of other lanes whose values cannot be read, without the prefix, and the reasons.
    pub unreadable: Vec<(String, String)>,
    /// Changes of this publish.
    pub summary: Summary,
}

/// Result of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The head has the publish.
    Published {
        /// Id of the publish.
        publish: PublishId,
        /// Number of the publish.
        seq: u64,
        /// Changes.
        summary: Summary,
        /// Why the stage of the publish could not be moved to its places. The publish is complete for replicas
        /// nevertheless; the next writer moves it.
        unfinished: Option<String>,
    },
    /// The lane has the wanted state already. Nothing was written (G-13).
    Unchanged {
        /// Number of the latest publish; 0 before the first one.
        seq: u64,
    },
    /// A dry run would change this.
    DryRun(Summary),
}
