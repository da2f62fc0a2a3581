//! Failures of requests: which are repeated, and what the others mean.

use super::error::PublishError;
use super::request::{FailureKind, RequestFailure};
use super::work::{Phase, Then, Work};
use crate::pages::Pages;

/// Reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Ask again after a delay.
    Delay,
    /// Go on at once.
    Continue,
}

impl Work {
    /// Handles the failure of the request of the current phase.
    pub(super) fn take_failure(&mut self, failure: RequestFailure) -> Reaction {
        use FailureKind::{Compacted, LeaseEnded, NoSpace, ResponseTooLarge, Unknown};
        let kind = failure.kind;
        if kind == ResponseTooLarge && self.phase.pages_mut().is_some_and(Pages::shrink) {
            return Reaction::Continue;
        }
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Commit(alive) if matches!(kind, Unknown | NoSpace) || self.is_uncertain => {
                // The request may have taken effect (G-11).
                self.is_uncertain = true;
                let failure = Some(failure);
                self.phase = Phase::Check { alive, failure };
                return delay_if(kind == Unknown);
            }
            Phase::Commit(alive) => {
                let error = PublishError::Etcd(failure.reason);
                let lease = alive.map(|alive| alive.lease);
                self.abandon(lease, None, Then::Done(Err(error)));
            }
            Phase::Revoke { then, .. } => self.proceed(then),
            phase if kind == Unknown => {
                self.phase = phase;
                return Reaction::Delay;
            }
            Phase::Abandon { lease, then, .. } => self.revoke(lease, then),
            Phase::Read(_) if kind == Compacted => self.again(),
            // The writer was stopped for longer than its lease.
            Phase::Stage(_) if kind == LeaseEnded => self.again(),
            Phase::ReadPublished(_) if kind == Compacted => self.take_published(None),
            Phase::FindBase(_) | Phase::ReadBase(_) if kind == Compacted => self.lose_base(),
            Phase::Attribute(mut attribution) if kind == Compacted => {
                attribution.take(None);
                self.phase = Phase::Attribute(attribution);
                self.attribute();
            }
            phase => self.end(phase, failure.reason),
        }
        Reaction::Continue
    }

    /// Ends the work: requests have failed for too long.
    pub(super) fn give_up(&mut self, reason: String) {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        self.end(phase, reason);
    }

    /// Ends because a page contradicts its request: keys may be missing, so nothing may be decided by what was read
    /// (G-21).
    pub(super) fn refuse_page(&mut self, reason: &str) {
        self.give_up(format!("inconsistent answer of etcd: {reason}"));
    }

    /// Ends in a phase whose request fails.
    fn end(&mut self, phase: Phase, reason: String) {
        match phase {
            Phase::Check { .. } | Phase::WalkBack { .. } => self.fail_unknown(reason),
            Phase::Commit(_) if self.is_uncertain => self.fail_unknown(reason),
            Phase::Complete { is_own: true, .. } => self.published(Some(reason)),
            // Without the lease, the next writer deletes the stage.
            Phase::Stage(staging) => {
                let error = PublishError::Etcd(reason);
                self.revoke(staging.lease(), Then::Done(Err(error)));
            }
            Phase::Abandon { then, .. } | Phase::Revoke { then, .. } => self.proceed(then),
            Phase::Done => {}
            _ => self.fail(PublishError::Etcd(reason)),
        }
    }
}

fn delay_if(is_delayed: bool) -> Reaction {
    if is_delayed {
        Reaction::Delay
    } else {
        Reaction::Continue
    }
}
