//! Second half of the work: the publish is written, and its outcome is found out.

use bytes::Bytes;
use oxds_types::etcd::{RangeResponse, TxnRequest, TxnResponse};

use super::completion::{Completed, Completion};
use super::error::PublishError;
use super::event::PublishOutcome;
use super::request::{FailureKind, PublishAnswer, RequestFailure};
use super::staging::{Alive, Staged, Staging};
use super::transactions::{commit, commit_stage};
use super::walk::{Step, Walk};
use super::work::{Outcome, Phase, Plan, Then, Work};
use crate::lane_state::SeenHead;
use oxds_core::time::Instant;

impl Work {
    /// Begins to write the plan.
    pub(super) fn write(&mut self, now: Instant) {
        if !self.has_format {
            self.phase = Phase::WriteFormat;
            return;
        }
        self.phase = match self.small_commit() {
            Some(_) => Phase::Commit(None),
            None => {
                let limit = self.options.request_limit;
                let staging = Staging::new(self.keys.clone(), self.id, limit, now);
                Phase::Stage(Box::new(staging))
            }
        };
    }

    /// Returns the transaction that publishes everything at once, if it is within etcd's limits.
    fn small_commit(&self) -> Option<TxnRequest> {
        let Plan { head, writes, .. } = self.plan.as_ref()?;
        let head = head.encode().into();
        commit(
            &self.keys,
            self.base(),
            head,
            writes,
            self.options.request_limit,
        )
    }

    /// Returns the head as the commit writes it: a large publish is named as staged.
    fn committed_head(&self, alive: Option<Alive>) -> Option<SeenHead> {
        let mut head = self.plan.as_ref()?.head.clone();
        head.staged = alive.map(|_| self.id);
        let mod_revision = 0;
        Some(SeenHead { head, mod_revision })
    }

    pub(super) fn commit_request(&self, alive: Option<Alive>) -> Option<TxnRequest> {
        let Some(alive) = alive else {
            return self.small_commit();
        };
        let head: Bytes = self.committed_head(Some(alive))?.head.encode().into();
        let base = self.base();
        Some(commit_stage(
            &self.keys,
            base,
            head,
            self.id,
            alive.mod_revision,
        ))
    }

    pub(super) fn take_stage(&mut self, mut staging: Box<Staging>, answer: &PublishAnswer) {
        let writes = self.plan.as_ref().map_or(&[][..], |plan| &plan.writes);
        match staging.take(answer, writes) {
            Staged::More => self.phase = Phase::Stage(staging),
            Staged::Complete(alive) => self.phase = Phase::Commit(Some(alive)),
            Staged::Lost => self.abandon(staging.lease(), None, Then::Again),
        }
    }

    pub(super) fn take_commit(
        &mut self,
        now: Instant,
        alive: Option<Alive>,
        response: &TxnResponse,
    ) {
        let revision = response.header.map_or(0, |header| header.revision);
        match self.committed_head(alive) {
            Some(seen) if response.succeeded => {
                let mod_revision = revision;
                let seen = SeenHead {
                    mod_revision,
                    ..seen
                };
                self.committed(now, seen, alive);
            }
            // etcd refuses a repeated commit, too, if the first one took effect.
            _ if self.is_uncertain => {
                let failure = None;
                self.phase = Phase::Check { alive, failure };
            }
            _ => self.abandon(alive.map(|alive| alive.lease), None, Then::Again),
        }
    }

    /// Handles the head after a commit whose outcome is unknown (G-11).
    pub(super) fn take_check(
        &mut self,
        now: Instant,
        alive: Option<Alive>,
        failure: Option<RequestFailure>,
        response: &RangeResponse,
    ) {
        let seen = match response.kvs.first().map(SeenHead::decode).transpose() {
            Ok(seen) => seen,
            Err(error) => return self.fail_unknown(error.to_string()),
        };
        let mod_revision = seen.as_ref().map_or(0, |seen| seen.mod_revision);
        let lease = alive.map(|alive| alive.lease);
        match (seen, failure) {
            (Some(seen), _) if seen.head.publish == self.id => self.committed(now, seen, alive),
            (_, Some(failure)) if mod_revision == self.base() && !may_repeat(&failure) => {
                let error = PublishError::Etcd(failure.reason);
                self.abandon(lease, Some(mod_revision), Then::Done(Err(error)));
            }
            // A commit that is still on its way takes effect, or the repeated one does: both have this base.
            (_, Some(_)) if mod_revision == self.base() => self.phase = Phase::Commit(alive),
            // The condition of the stage does not hold any more: the lease has ended.
            (_, None) if mod_revision == self.base() => {
                self.abandon(lease, Some(mod_revision), Then::Again);
            }
            _ => {
                let walk = Walk::new(self.keys.head(), self.id, mod_revision, self.base());
                if walk.is_over() {
                    self.abandon(lease, None, Then::Again);
                } else {
                    self.phase = Phase::WalkBack { alive, walk };
                }
            }
        }
    }

    pub(super) fn take_walk_back(
        &mut self,
        now: Instant,
        alive: Option<Alive>,
        mut walk: Walk,
        response: &RangeResponse,
    ) {
        match walk.take(response) {
            Ok(Step::More) => self.phase = Phase::WalkBack { alive, walk },
            // The publishes after it began by completing it.
            Ok(Step::Found(mut seen)) => {
                seen.head.staged = None;
                self.committed(now, *seen, alive);
            }
            Ok(Step::Absent) => self.abandon(alive.map(|alive| alive.lease), None, Then::Again),
            Ok(Step::GaveUp) => self.fail_unknown("too many publishes since".to_owned()),
            Err(error) => self.fail_unknown(error.to_string()),
        }
    }

    /// Ends because the outcome cannot be found out.
    pub(super) fn fail_unknown(&mut self, reason: String) {
        let id = self.id;
        self.fail(PublishError::OutcomeUnknown { id, reason });
    }

    /// Goes on after the commit took effect.
    fn committed(&mut self, now: Instant, seen: SeenHead, alive: Option<Alive>) {
        self.lease = alive.map(|alive| alive.lease);
        if seen.head.staged.is_none() {
            return self.published(None);
        }
        let writes = self.plan.as_ref().map_or(&[][..], |plan| &plan.writes);
        let (keys, limit) = (self.keys.clone(), self.options.request_limit);
        let completion = Box::new(Completion::own(keys, seen, limit, writes, now));
        let is_own = true;
        self.phase = Phase::Complete { completion, is_own };
    }

    /// Handles an answer to the completion of the own publish.
    pub(super) fn take_own_completion(
        &mut self,
        mut completion: Box<Completion>,
        answer: PublishAnswer,
    ) {
        match completion.take(answer) {
            Completed::More => {
                let is_own = true;
                self.phase = Phase::Complete { completion, is_own };
            }
            // Another writer begins by completing this publish.
            Completed::Done | Completed::ByAnother => self.published(None),
        }
    }

    /// Ends with success.
    pub(super) fn published(&mut self, unfinished: Option<String>) {
        let outcome: Outcome = Ok(PublishOutcome::Published {
            publish: self.id,
            seq: self.plan.as_ref().map_or(0, |plan| plan.head.seq),
            summary: self
                .plan
                .take()
                .map(|plan| plan.summary)
                .unwrap_or_default(),
            unfinished,
        });
        let lease = self.lease.take();
        self.revoke(lease, Then::Done(outcome));
    }

    pub(super) fn take_abandon(
        &mut self,
        lease: Option<i64>,
        guard: Option<i64>,
        then: Then,
        is_done: bool,
    ) {
        // The head is not the one of the check any more: perhaps the commit took effect after it.
        if guard.is_some() && !is_done {
            let (alive, failure) = (
                lease.map(|lease| Alive {
                    lease,
                    mod_revision: 0,
                }),
                None,
            );
            self.phase = Phase::Check { alive, failure };
            return;
        }
        self.revoke(lease, then);
    }
}

/// Returns whether the same request may succeed later.
fn may_repeat(failure: &RequestFailure) -> bool {
    failure.kind == FailureKind::Unknown
}
