//! Events of a follower for the store.

use std::fmt;

use super::effect::Failure;
use super::finding::FollowerFinding;
use crate::format::FormatError;
use crate::head::Head;
use crate::names::Segment;
use oxds_core::group::GroupUpdate;
use oxds_core::snapshot::ChangeSet;

/// Event of a [`Follower`](super::Follower).
#[derive(Debug)]
pub enum FollowerEvent {
    /// The served state changes, at once and as a whole.
    Update(Box<FollowerUpdate>),
    /// The findings changed.
    Findings {
        /// All findings at present, at most 100 of each kind and lane.
        findings: Vec<FollowerFinding>,
        /// Number of findings that are not listed.
        more: usize,
    },
    /// For logs and metrics.
    Notice(Notice),
    /// The store has a format that this build does not read (G-4). The follower has stopped: before the first update
    /// the process cannot serve, later it serves the last state.
    Stopped(FormatError),
}

/// Change of the served state: one publish, or several that followed each other.
#[derive(Debug)]
pub struct FollowerUpdate {
    /// Changes of the resources for all nodes; may be empty.
    pub changes: ChangeSet,
    /// Changes of groups.
    pub groups: Vec<GroupUpdate>,
    /// Heads that vouch for the state, of all lanes.
    pub heads: Vec<(Segment, Head)>,
    /// Number of heads that the update covers. More than one if the store was slower than the writers (G-23); none if
    /// the replicas have decided to roll something back, or such a decision ended (G-38).
    pub publishes: u64,
    /// Cluster that the state was read from.
    pub cluster: u64,
    /// Revision of etcd at which the state was complete.
    pub revision: i64,
}

/// Something that happened, for logs and metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The follower watches the store, beginning after this revision.
    Following {
        /// Last revision that is already known.
        revision: i64,
    },
    /// The connection or the watch failed. The follower serves what it has and tries again.
    Disconnected(Failure),
    /// Everything is read again, for this reason.
    Reading(ReadReason),
    /// A lane follows a head that is not a descendant of the one it followed: another history. The whole difference is
    /// one update.
    ChainBroken {
        /// The lane.
        lane: Segment,
        /// Publish that was served.
        from: u64,
        /// Publish that is served from now on.
        to: u64,
    },
    /// Events came twice, late or out of order. The digest decides whether one is missing.
    Disorder {
        /// Number of events that were ignored.
        events: u64,
    },
}

/// Reason to read everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadReason {
    /// Nothing was read yet, or nothing that could be served.
    First,
    /// The revision after the last known one was compacted (G-18).
    Compacted,
    /// Another cluster answers (G-29).
    OtherCluster,
    /// The revision of the cluster is less than one that was seen: a backup was restored (G-27).
    WentBack,
    /// The head is not a descendant of the known one (G-28).
    OtherHistory(Segment),
    /// The state of a lane does not have the digest of its head (G-21).
    Digest(Segment),
    /// A watch reported progress beyond a head that it did not deliver (G-21).
    LostEvents(Segment),
}

impl fmt::Display for ReadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("nothing was read yet"),
            Self::Compacted => f.write_str("the next revision was compacted"),
            Self::OtherCluster => f.write_str("another cluster answers"),
            Self::WentBack => f.write_str("the revision of the cluster went back"),
            Self::OtherHistory(lane) => {
                write!(
                    f,
                    "the head of lane {lane} is not a descendant of the known one"
                )
            }
            Self::Digest(lane) => {
                write!(
                    f,
                    "the state of lane {lane} does not have the digest of its head"
                )
            }
            Self::LostEvents(lane) => write!(f, "the watch lost a publish of lane {lane}"),
        }
    }
}
