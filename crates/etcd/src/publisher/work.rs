//! Work of a publisher: its phases, and what they have in common.

use std::collections::{BTreeMap, VecDeque};

use oxds_types::etcd::KeyValue;

use super::attribution::Attribution;
use super::completion::Completion;
use super::error::PublishError;
use super::event::{PublishEvent, PublishOutcome};
use super::options::{PublishOptions, Wanted};
use super::plan::{Changes, Write};
use super::request::RequestFailure;
use super::staging::{Alive, Staging};
use super::summary::Summary;
use super::transactions::LaneKeys;
use super::walk::Walk;
use crate::digest::Digest;
use crate::head::Head;
use crate::lane_state::{Content, LaneState, SeenHead};
use crate::names::{PublishId, Segment};
use crate::pages::Pages;
use oxds_core::time::Instant;

/// Attempts, each after another writer was faster.
const MAX_ATTEMPTS: usize = 100;

/// Result of the work.
pub(super) type Outcome = Result<PublishOutcome, PublishError>;

/// Next state, after the stage and the lease were given up.
#[derive(Debug)]
pub(super) enum Then {
    /// Another attempt.
    Again,
    /// The end.
    Done(Outcome),
}

/// Phase of the work; see the automaton of [`Publisher`](super::Publisher).
#[derive(Debug)]
pub(super) enum Phase {
    /// Format, head and statuses are read, at one revision.
    Begin,
    /// A large publish is completed: this one, or the one before.
    Complete {
        completion: Box<Completion>,
        is_own: bool,
    },
    /// All lanes are read, at the revision of `Begin`.
    Read(Pages),
    /// Stages without a writer are deleted.
    Undo(VecDeque<PublishId>),
    /// The lane is read as it was at its head: its entries were changed since.
    ReadPublished(Pages),
    /// The caller makes the wanted state.
    Want,
    /// The base is searched in the history.
    FindBase(Walk),
    /// The lane is read as it was at the base.
    ReadBase(Pages),
    /// The publishes that collide with this one are searched.
    Attribute(Box<Attribution>),
    /// The caller checks the merged state.
    Verdict,
    /// The prefix is empty: its format is written.
    WriteFormat,
    /// A large publish is staged.
    Stage(Box<Staging>),
    /// The head is written; with everything else, or with the name of the stage.
    Commit(Option<Alive>),
    /// The head is read, because etcd has not said whether the commit took effect.
    Check {
        alive: Option<Alive>,
        failure: Option<RequestFailure>,
    },
    /// The publish is searched before the heads of other writers.
    WalkBack { alive: Option<Alive>, walk: Walk },
    /// The own stage is deleted; with a guard, unless the head was changed since this revision.
    Abandon {
        lease: Option<i64>,
        guard: Option<i64>,
        then: Then,
    },
    /// The lease is ended.
    Revoke { lease: i64, then: Then },
    /// The work has ended.
    Done,
}

impl Phase {
    /// Returns the read whose page is the answer to the request of the phase.
    pub(super) fn pages_mut(&mut self) -> Option<&mut Pages> {
        match self {
            Self::Read(pages) | Self::ReadPublished(pages) | Self::ReadBase(pages) => Some(pages),
            Self::Complete { completion, .. } => completion.pages_mut(),
            _ => None,
        }
    }

    /// Returns whether the phase only reads, and needs no wanted state.
    pub(super) fn is_before_wanted(&self) -> bool {
        matches!(self, Self::Begin | Self::Read(_) | Self::ReadPublished(_))
    }
}

/// A publish that can be written.
#[derive(Debug)]
pub(super) struct Plan {
    /// Head without a stage.
    pub(super) head: Head,
    pub(super) writes: Vec<Write>,
    pub(super) summary: Summary,
}

/// State of the work.
#[derive(Debug)]
pub(super) struct Work {
    // Fixed.
    pub(super) options: PublishOptions,
    pub(super) keys: LaneKeys,
    /// `None` until the caller has made it.
    pub(super) wanted: Option<Wanted>,

    // Kept in all attempts.
    pub(super) attempts: usize,
    /// Changes against the base; `None` before the base is known.
    pub(super) changes: Option<Changes>,

    // Of one attempt.
    pub(super) id: PublishId,
    pub(super) has_format: bool,
    /// Greatest seq that a replica serves.
    pub(super) served: u64,
    /// Revision of the reads.
    pub(super) revision: i64,
    /// Keys that were read, until the read is complete.
    pub(super) kvs: Vec<KeyValue>,
    pub(super) lane: LaneState,
    /// Digest of the entries of the lane.
    pub(super) digest: Digest,
    pub(super) head: Option<SeenHead>,
    pub(super) others: BTreeMap<Segment, LaneState>,
    /// State of the lane at its head, if it is restored.
    pub(super) repaired: Option<Content>,
    pub(super) plan: Option<Plan>,
    /// Lease of the completed stage.
    pub(super) lease: Option<i64>,
    /// A commit of this attempt may have taken effect.
    pub(super) is_uncertain: bool,

    pub(super) phase: Phase,
    pub(super) events: VecDeque<PublishEvent>,
}

impl Work {
    pub(super) fn new(options: PublishOptions) -> Self {
        let keys = LaneKeys {
            prefix: options.prefix.clone(),
            lane: options.lane.clone(),
        };
        Self {
            keys,
            wanted: None,
            attempts: 0,
            changes: None,
            id: options.id,
            has_format: false,
            served: 0,
            revision: 0,
            kvs: Vec::new(),
            lane: LaneState::default(),
            digest: Digest::default(),
            head: None,
            others: BTreeMap::new(),
            repaired: None,
            plan: None,
            lease: None,
            is_uncertain: false,
            phase: Phase::Begin,
            events: VecDeque::new(),
            options,
        }
    }

    /// Returns the revision of the head that the publish is based on; 0 before the first publish.
    pub(super) fn base(&self) -> i64 {
        self.head.as_ref().map_or(0, |seen| seen.mod_revision)
    }

    pub(super) fn take_wanted(&mut self, wanted: Wanted) {
        self.wanted = Some(wanted);
        if matches!(self.phase, Phase::Want) {
            self.find_base();
        }
    }

    pub(super) fn done(&mut self, outcome: Outcome) {
        self.phase = Phase::Done;
        self.events.push_back(PublishEvent::Done(outcome));
    }

    pub(super) fn fail(&mut self, error: impl Into<PublishError>) {
        self.done(Err(error.into()));
    }

    /// Begins another attempt, with another id: a stage of the id before may still have keys.
    pub(super) fn again(&mut self) {
        self.attempts += 1;
        if self.attempts >= MAX_ATTEMPTS {
            return self.fail(PublishError::Contended(self.attempts));
        }
        self.id = PublishId(self.id.0.wrapping_add(1));
        self.begin();
    }

    /// Begins to read.
    pub(super) fn begin(&mut self) {
        self.kvs.clear();
        self.lane = LaneState::default();
        self.head = None;
        self.others.clear();
        self.repaired = None;
        self.plan = None;
        self.is_uncertain = false;
        self.phase = Phase::Begin;
    }

    pub(super) fn proceed(&mut self, then: Then) {
        match then {
            Then::Again => self.again(),
            Then::Done(outcome) => self.done(outcome),
        }
    }

    /// Returns when the next request may be made, if the work pauses.
    pub(super) fn pause_until(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Complete { completion, .. } => completion.pause_until(),
            _ => None,
        }
    }

    /// Returns whether the work has ended.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Returns whether the phase asks for the outcome of a commit.
    pub(super) fn is_checking(&self) -> bool {
        matches!(self.phase, Phase::Check { .. } | Phase::WalkBack { .. })
    }

    /// Ends the lease, if there is one.
    pub(super) fn revoke(&mut self, lease: Option<i64>, then: Then) {
        match lease {
            Some(lease) => self.phase = Phase::Revoke { lease, then },
            None => self.proceed(then),
        }
    }

    /// Gives up the own stage, if there is a lease.
    pub(super) fn abandon(&mut self, lease: Option<i64>, guard: Option<i64>, then: Then) {
        match lease {
            Some(_) => self.phase = Phase::Abandon { lease, guard, then },
            None => self.proceed(then),
        }
    }
}
