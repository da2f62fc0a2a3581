//! Rollouts: the latest changes of the resources that a server serves, and how far its clients are with each.
//!
//! ```text
//!            begin             woken: it concerns clients            the last of them answers or ends
//!  (nothing) ─────▶ waking ─────────────────────────────▶ open ─────────────────────────────────────▶ answered
//!                     │                                   │  ▲
//!                     │ woken: it concerns no client      └──┘ nacked: a NACK is an answer, and is kept
//!                     ▼
//!                  no client
//! ```
//!
//! The driver counts the answers, because a lock for each of them would cost more than the answer. The machine keeps
//! what people ask for: what changed, where it comes from, how long it took, and who NACKed it. It is bounded in number
//! and in bytes.

mod contents;
mod source;
mod text;
mod unanswered;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::ResourceType;

use crate::time::Instant;
pub use contents::{ChangeSort, ChangedName, ChangedNames, RolloutContents, TypeContents};
pub use source::{RolloutPublish, RolloutSource};
use text::clipped;
pub use unanswered::Unanswered;

/// Bounds of a history.
#[derive(Debug, Clone, Copy)]
pub struct RolloutLimits {
    /// Largest number of rollouts.
    pub rollouts: usize,
    /// Largest number of bytes of names and texts, estimated. The latest rollout is kept in any case.
    pub bytes: usize,
}

impl Default for RolloutLimits {
    /// A day of changes, one every seven minutes, and no more memory than a few clients need.
    fn default() -> Self {
        Self {
            rollouts: 200,
            bytes: 1 << 20,
        }
    }
}

/// NACKs of a rollout that are kept with their texts. More have mostly the same reason.
const MAX_NACKS: usize = 5;
/// Bytes of a rollout beside its names and texts.
const OVERHEAD: usize = 300;

/// One change of the served resources.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// Number of the change in this process.
    pub number: u64,
    /// Time of the change.
    pub at: Instant,
    /// Where it comes from.
    pub source: RolloutSource,
    /// Resources that it added, changed and removed.
    pub contents: RolloutContents,
    /// How far the clients are.
    pub state: RolloutState,
    /// Clients that NACKed a part of it.
    pub nacked: usize,
    /// The first NACKs.
    pub nacks: Vec<RolloutNack>,
    bytes: usize,
}

/// How far the clients are with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutState {
    /// The clients that it concerns are being woken.
    Waking,
    /// The change concerns no client: none was connected, or none subscribed to a part of it.
    NoClient,
    /// The change concerns this number of clients, and at least one of them has not answered it.
    Open {
        /// Clients that it concerns.
        clients: usize,
        /// Those of them that are too many changes behind, so that their answers are not followed.
        lost: usize,
    },
    /// All clients that it concerns have answered it, with an ACK or a NACK, or have gone.
    Answered {
        /// Clients that it concerned.
        clients: usize,
        /// Time until the last answer.
        after: Duration,
    },
}

/// A NACK of a part of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutNack {
    /// `node.id` of the client.
    pub node: Arc<str>,
    /// Type of the response.
    pub resource_type: ResourceType,
    /// Resources that the client rejects, if it is known which.
    pub names: Vec<Arc<str>>,
    /// Message of the client.
    pub reason: Arc<str>,
}

/// The latest rollouts.
#[derive(Debug, Default)]
pub struct Rollouts {
    limits: RolloutLimits,
    /// Number of the latest change.
    latest: u64,
    /// Oldest first.
    kept: VecDeque<Rollout>,
    bytes: usize,
}

impl Rollouts {
    /// Makes a machine that keeps up to this much.
    #[must_use]
    pub fn with_limits(limits: RolloutLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Begins a change, and returns its number. One without contents gets a number, and is not kept.
    pub fn begin(&mut self, now: Instant, source: RolloutSource, contents: RolloutContents) -> u64 {
        self.latest += 1;
        if contents.is_empty() {
            return self.latest;
        }
        let bytes = OVERHEAD + source.bytes() + contents.bytes();
        self.bytes += bytes;
        self.kept.push_back(Rollout {
            number: self.latest,
            at: now,
            source,
            contents,
            state: RolloutState::Waking,
            nacked: 0,
            nacks: Vec::new(),
            bytes,
        });
        self.trim();
        debug_assert!(self.is_consistent());
        self.latest
    }

    /// Returns the number of the latest change; 0 before the first one.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// The clients that a change concerns are woken: this number of them, of which `lost` are too far behind to be
    /// followed.
    pub fn woken(&mut self, number: u64, clients: usize, lost: usize) {
        if let Some(rollout) = self.find(number) {
            rollout.state = match clients {
                0 => RolloutState::NoClient,
                clients => RolloutState::Open { clients, lost },
            };
        }
    }

    /// The last client that is followed has answered a change, or has gone. A change of which clients are lost stays
    /// open.
    pub fn answered(&mut self, now: Instant, number: u64) {
        if let Some(rollout) = self.find(number)
            && let RolloutState::Open { clients, lost: 0 } = rollout.state
        {
            rollout.state = RolloutState::Answered {
                clients,
                after: now.saturating_since(rollout.at),
            };
        }
    }

    /// Handles the NACK of a client that has not answered these changes. Returns those that it is about: they have a
    /// resource that the NACK names, or, if it names none, one of its type.
    pub fn nacked(&mut self, numbers: &[u64], nack: &RolloutNack) -> Vec<u64> {
        let mut about = Vec::new();
        for number in numbers {
            let Some(rollout) = self.find(*number) else {
                continue;
            };
            if !rollout.contents.may_have(&nack.resource_type, &nack.names) {
                continue;
            }
            about.push(*number);
            rollout.nacked += 1;
            if rollout.nacks.len() < MAX_NACKS {
                let nack = nack.clipped();
                let bytes = nack.bytes();
                rollout.bytes += bytes;
                rollout.nacks.push(nack);
                self.bytes += bytes;
            }
        }
        self.trim();
        debug_assert!(self.is_consistent());
        about
    }

    /// Returns the rollout with this number, if it is kept.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Rollout> {
        let at = self.position(number)?;
        self.kept.get(at)
    }

    /// Returns the rollouts before the one with this number, the latest first; all without a number.
    pub fn before(&self, number: Option<u64>) -> impl Iterator<Item = &Rollout> {
        let end = number.map_or(self.kept.len(), |number| {
            self.kept.partition_point(|rollout| rollout.number < number)
        });
        self.kept.range(..end).rev()
    }

    /// Returns the number of rollouts that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether nothing has changed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether numbers ascend, and counts and bounds hold; for debug assertions.
    fn is_consistent(&self) -> bool {
        let RolloutLimits { rollouts, bytes } = self.limits;
        let numbers = self.kept.iter().map(|rollout| rollout.number);
        let total: usize = self.kept.iter().map(|rollout| rollout.bytes).sum();
        let mut nacks = self.kept.iter();
        let is_counted = |rollout: &Rollout| {
            rollout.nacks.len() == rollout.nacked.min(MAX_NACKS) && !rollout.contents.is_empty()
        };
        numbers.is_sorted_by(|a, b| a < b)
            && self
                .kept
                .back()
                .is_none_or(|last| last.number <= self.latest)
            && total == self.bytes
            && (self.kept.len() <= 1 || self.kept.len() <= rollouts && self.bytes <= bytes)
            && nacks.all(is_counted)
    }

    fn position(&self, number: u64) -> Option<usize> {
        let found = self
            .kept
            .binary_search_by_key(&number, |rollout| rollout.number);
        found.ok()
    }

    fn find(&mut self, number: u64) -> Option<&mut Rollout> {
        let at = self.position(number)?;
        self.kept.get_mut(at)
    }

    fn trim(&mut self) {
        let RolloutLimits { rollouts, bytes } = self.limits;
        while self.kept.len() > 1 && (self.kept.len() > rollouts || self.bytes > bytes) {
            let oldest = self.kept.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes);
        }
    }
}

impl RolloutNack {
    /// Returns the part that is kept: one name, and bounded texts.
    fn clipped(&self) -> Self {
        Self {
            node: clipped(&self.node),
            resource_type: self.resource_type.clone(),
            names: self.names.iter().take(1).map(clipped).collect(),
            reason: clipped(&self.reason),
        }
    }

    fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len()).sum();
        OVERHEAD + self.node.len() + self.reason.len() + names
    }
}
