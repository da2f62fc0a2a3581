//! Requests and answers of each phase.

use oxds_types::etcd::LeaseRevokeRequest;

use super::request::{PublishAnswer, PublishRequest};
use super::transactions::{abandon, undo, write_format};
use super::work::{Phase, Work};
use oxds_core::time::Instant;

impl Work {
    /// Returns the request of the phase. The same one is returned until it is answered.
    pub(super) fn request(&mut self, now: Instant) -> Option<PublishRequest> {
        use PublishRequest::{Range, Txn};
        let writes = self.plan.as_ref().map_or(&[][..], |plan| &plan.writes);
        let base = self.base();
        if self.wanted.is_none() && !self.phase.is_before_wanted() {
            return None;
        }
        Some(match &mut self.phase {
            Phase::Begin => Txn(self.begin_request()),
            Phase::Complete { completion, .. } => completion.request(now)?,
            Phase::Read(pages) | Phase::ReadPublished(pages) | Phase::ReadBase(pages) => {
                Range(pages.request())
            }
            Phase::Undo(dead) => Txn(undo(&self.keys, base, *dead.front()?)),
            Phase::FindBase(walk) | Phase::WalkBack { walk, .. } => Range(walk.request()),
            Phase::Attribute(attribution) => Range(attribution.request()?),
            Phase::WriteFormat => Txn(write_format(&self.keys.prefix)),
            Phase::Stage(staging) => staging.request(writes, now),
            Phase::Commit(alive) => {
                let alive = *alive;
                Txn(self.commit_request(alive)?)
            }
            Phase::Check { .. } => Range(super::walk::head_at(&self.keys.head(), 0)),
            Phase::Abandon { guard, .. } => Txn(abandon(&self.keys, *guard, self.id)),
            Phase::Revoke { lease, .. } => {
                PublishRequest::Revoke(LeaseRevokeRequest { id: *lease })
            }
            Phase::Want | Phase::Verdict | Phase::Done => return None,
        })
    }

    /// Handles the answer to the request of the phase.
    pub(super) fn take(&mut self, now: Instant, answer: PublishAnswer) {
        use PublishAnswer::{Range, Txn};
        if let (Some(pages), Range(page)) = (self.phase.pages_mut(), &answer)
            && let Err(reason) = pages.take(page)
        {
            return self.refuse_page(reason);
        }
        match (std::mem::replace(&mut self.phase, Phase::Done), answer) {
            (Phase::Begin, Txn(response)) => self.take_begin(&response),
            (
                Phase::Complete {
                    completion,
                    is_own: false,
                },
                answer,
            ) => {
                self.take_completion(completion, answer);
            }
            (
                Phase::Complete {
                    completion,
                    is_own: true,
                },
                answer,
            ) => {
                self.take_own_completion(completion, answer);
            }
            (Phase::Read(pages), Range(response)) => self.take_read(pages, response),
            (Phase::Undo(dead), Txn(response)) => self.take_undo(dead, response.succeeded),
            (Phase::ReadPublished(pages), Range(response)) => {
                match self.collect(&pages, response) {
                    Some(content) => self.take_published(Some(content)),
                    None => self.phase = Phase::ReadPublished(pages),
                }
            }
            (Phase::FindBase(walk), Range(response)) => self.take_walk_to_base(walk, &response),
            (Phase::ReadBase(pages), Range(response)) => match self.collect(&pages, response) {
                Some(content) => self.take_base(&content),
                None => self.phase = Phase::ReadBase(pages),
            },
            (Phase::Attribute(mut attribution), Range(response)) => {
                attribution.take(Some(&response));
                self.phase = Phase::Attribute(attribution);
                self.attribute();
            }
            (Phase::WriteFormat, Txn(_)) => {
                self.has_format = true;
                self.write(now);
            }
            (Phase::Stage(staging), answer) => self.take_stage(staging, &answer),
            (Phase::Commit(alive), Txn(response)) => self.take_commit(now, alive, &response),
            (Phase::Check { alive, failure }, Range(response)) => {
                self.take_check(now, alive, failure, &response);
            }
            (Phase::WalkBack { alive, walk }, Range(response)) => {
                self.take_walk_back(now, alive, walk, &response);
            }
            (Phase::Abandon { lease, guard, then }, Txn(response)) => {
                self.take_abandon(lease, guard, then, response.succeeded);
            }
            (Phase::Revoke { then, .. }, _) => self.proceed(then),
            // The driver mixed up answers: the request is made again.
            (phase, _) => self.phase = phase,
        }
    }
}
