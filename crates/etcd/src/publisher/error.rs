//! Reasons why nothing was published.

use std::fmt;

use crate::entry::Entry;
use crate::format::FormatError;
use crate::head::HeadError;
use crate::names::{PublishId, Segment};

/// Number of entries that a message names; the others are counted.
const NAMED: usize = 10;

/// An entry that another writer has changed since the base (G-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The entry.
    pub entry: Entry,
    /// The publish that changed it, if the history of etcd still has it; otherwise the latest publish.
    pub publish: PublishId,
    /// Seq of that publish.
    pub seq: u64,
    /// User and machine of its writer.
    pub by: String,
    /// Time of it by the writer's clock, in milliseconds since 1970.
    pub at: u64,
    /// Whether `publish` is the one that changed the entry, and not only the latest one.
    pub is_exact: bool,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, seq, by, .. } = self;
        let or_before = if self.is_exact { "" } else { " or before" };
        write!(f, "{entry} (by {by:?} in publish {seq}{or_before})")
    }
}

/// Reason why a publish failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The request with this entry is larger than etcd takes (G-9).
    #[error(
        "{entry} is too large: its request has {size} bytes, and the limit is {limit}; etcd's option --max-request-bytes raises it, and the option of this command with the same name must have the same value"
    )]
    TooLarge {
        /// The entry.
        entry: Entry,
        /// Size of its request, in bytes.
        size: usize,
        /// Limit of a request, in bytes.
        limit: usize,
    },
    /// Secrets are published only on request (G-15).
    #[error(
        "the publish has {count} resources of type Secret, such as {first}: etcd stores them in the clear; --with-secrets allows it"
    )]
    Secrets {
        /// One of them.
        first: Entry,
        /// Their number.
        count: usize,
    },
    /// A newer build wrote the prefix or a value.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The head of a lane cannot be read.
    #[error("head of lane {lane}: {error}")]
    Head {
        /// The lane.
        lane: Segment,
        /// Reason.
        error: HeadError,
    },
    /// A place belongs to another lane (G-6, S-72).
    #[error("{entry} is in lane {lane}, too: expected each resource in one lane")]
    OtherLane {
        /// The entry.
        entry: Entry,
        /// The other lane.
        lane: Segment,
    },
    /// Keys were changed without a publish (G-14).
    #[error("keys of the lane were changed without a publish: {}; --repair restores the published state, --adopt publishes the changes", listed(.keys))]
    Foreign {
        /// The keys without their prefix, as far as they are known.
        keys: Vec<String>,
    },
    /// The published state is not in the history of etcd any more, so it cannot be restored.
    #[error("the published state of the lane cannot be restored, because etcd has compacted it: {}; --adopt publishes the state that etcd has", listed(.keys))]
    Irreparable {
        /// The changed keys without their prefix, as far as they are known.
        keys: Vec<String>,
    },
    /// Changed keys have values that cannot be published.
    #[error("keys of the lane have values that cannot be read: {}; --repair restores the published state", listed(.keys))]
    Unreadable {
        /// The keys without their prefix, and the reasons.
        keys: Vec<String>,
    },
    /// Another writer changed the same entries (G-10).
    #[error("changed by another writer since the base of this publish: {}; --force overwrites these changes", listed(.0))]
    Conflicts(Vec<Conflict>),
    /// The base is not in the history of etcd (any more).
    #[error(
        "the base {0} is not in the history of the lane: it was compacted, or is of another store"
    )]
    UnknownBase(PublishId),
    /// Replicas serve a later publish than the store has (G-27).
    #[error(
        "store went back: serving {serving}, store has {store}; --accept-restored publishes on top of the restored state"
    )]
    WentBack {
        /// Greatest seq that a replica serves.
        serving: u64,
        /// Seq of the head.
        store: u64,
    },
    /// The caller rejected the merged state (G-12).
    #[error("the published state would be invalid")]
    Invalid,
    /// etcd refused a request, or cannot be reached. Nothing was published.
    #[error("not published: {0}")]
    Etcd(String),
    /// etcd did not say whether the publish took effect, and cannot be asked any more (G-11).
    #[error("unknown whether publish {id} took effect: {reason}")]
    OutcomeUnknown {
        /// Id of the publish.
        id: PublishId,
        /// Last failure.
        reason: String,
    },
    /// Other writers were faster again and again.
    #[error("not published: other writers published first, {0} times in a row")]
    Contended(usize),
}

fn listed(items: &[impl fmt::Display]) -> String {
    let mut text = String::new();
    for (at, item) in items.iter().take(NAMED).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        text += &format!("{separator}{item}");
    }
    match items.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
