//! Findings: errors and warnings about the content of the store.

use std::fmt;

use crate::entry::Entry;
use crate::keys::Key;
use crate::names::Segment;

/// Greatest number of findings of one kind and lane that are listed. More of them have one cause.
pub(super) const MAX_FINDINGS: usize = 100;

/// Error or warning about a key of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerFinding {
    /// The key that it is about.
    pub key: Key,
    /// The finding.
    pub kind: FindingKind,
}

/// Kinds of findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingKind {
    /// The value cannot be used, for this reason; the last good one stays served.
    Invalid(String),
    /// The key was changed without a publish, so the change is not served (G-14).
    Unpublished,
    /// Another lane has the entry, too. The lane stays at the state that is served (G-6).
    Duplicate {
        /// The lane that has it.
        other: Segment,
        /// The entry.
        entry: Entry,
    },
    /// The store has an earlier publish than one that was served, so the lane is held (G-27).
    WentBack {
        /// Seq of the publish that is or was served.
        serving: u64,
        /// Seq in the store; `None` without a head.
        store: Option<u64>,
        /// The replica that serves it; `None` for this one.
        replica: Option<Segment>,
    },
    /// The replicas have decided to roll a change back, because clients NACKed it (G-38).
    RolledBack {
        /// Number of nodes that NACKed it.
        nodes: u64,
        /// Error message of a NACK.
        reason: String,
        /// Other places of the change.
        others: usize,
    },
    /// The state of the lane does not have the digest of its head, although everything was read again (G-36).
    Diverged {
        /// Seq of the head.
        store: u64,
    },
}

impl FindingKind {
    /// Returns a stable identifier of the kind.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Unpublished => "unpublished",
            Self::Duplicate { .. } => "duplicate",
            Self::WentBack { .. } => "went-back",
            Self::RolledBack { .. } => "rolled-back",
            Self::Diverged { .. } => "diverged",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) => write!(f, "{reason}; the last good value stays served"),
            Self::Unpublished => f.write_str(
                "changed without a publish, so it is not served: `oxds publish --repair` restores the published value, \
                 `--adopt` publishes this one",
            ),
            Self::Duplicate { other, entry } => write!(
                f,
                "duplicate {entry}: already defined in lane {other}; the lane stays at the state that is served"
            ),
            Self::WentBack {
                serving,
                store,
                replica,
            } => {
                f.write_str("store went back: ")?;
                match replica {
                    None => write!(f, "serving {serving}, ")?,
                    Some(replica) => write!(f, "replica {replica} serves {serving}, ")?,
                }
                match store {
                    Some(store) => write!(f, "store has {store}"),
                    None => f.write_str("store has no head"),
                }
            }
            Self::RolledBack {
                nodes,
                reason,
                others,
            } => {
                f.write_str("rolled back on all replicas")?;
                if *others > 0 {
                    write!(f, ", with {others} resources that changed together with it")?;
                }
                write!(f, ": {nodes} nodes NACKed it: {reason}; another publish of it ends this")
            }
            Self::Diverged { store } => write!(
                f,
                "the keys of the lane do not have the digest of publish {store}, so it is not served"
            ),
        }
    }
}

/// Writes key and finding in one line.
impl fmt::Display for FollowerFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd:{}: {}", self.key, self.kind)
    }
}
