//! Reads of the whole prefix and of stages.

use std::mem;

use oxds_types::etcd::{RangeRequest, RangeResponse};

use super::effect::{Failure, FailureKind, FollowerTransmit, RequestId};
use super::event::{Notice, ReadReason};
use super::lane::Stage;
use super::machine::Follower;
use super::phase::{Phase, StageRead};
use crate::keys::Key;
use crate::names::{PublishId, Segment};
use crate::pages::{Pages, ReadAt};
use oxds_core::time::Instant;

impl Follower {
    /// Reads the whole prefix at one revision, on the same connection.
    pub(super) fn read_all(&mut self, now: Instant, reason: ReadReason) {
        if let Phase::Following(following) = &self.phase {
            let stream = following.stream;
            self.transmits
                .push_back(FollowerTransmit::CloseWatch { stream });
        }
        self.notice(Notice::Reading(reason.clone()));
        self.must_read = Some(reason);
        self.view.begin_read();
        let pages = Pages::new(self.config.prefix.all(), ReadAt::First);
        let request = self.request(pages.request());
        let until = now + self.config.timing.page;
        self.phase = Phase::Reading {
            pages,
            request,
            until,
            page: Vec::new(),
        };
    }

    /// Takes the last page of a complete read into the view.
    pub(super) fn take_page(&mut self) {
        let Phase::Reading { page, .. } = &mut self.phase else {
            return;
        };
        for kv in mem::take(page) {
            if let Err(error) = self.view.read(&kv) {
                return self.stop(error);
            }
        }
    }

    /// Handles a page of a complete read. It is taken when events are polled, or with the next answer: after the next
    /// page was requested, so that etcd and this machine work at the same time. At most two pages are in memory.
    pub(super) fn handle_page(&mut self, now: Instant, answer: Result<RangeResponse, Failure>) {
        self.take_page();
        let Phase::Reading { pages, page, .. } = &mut self.phase else {
            return;
        };
        let read = match answer {
            Ok(page) => page,
            // The revision of the first page has been compacted. Pages of different revisions would lose changes.
            Err(failure) if failure.kind == FailureKind::Compacted => {
                return self.read_all(now, ReadReason::Compacted);
            }
            Err(failure) if is_too_large(&failure) && pages.shrink() => {
                let fewer = pages.request();
                return self.read_next(now, fewer);
            }
            Err(failure) => return self.fail(now, failure),
        };
        let is_first = pages.position().is_none();
        if let Err(reason) = pages.take(&read) {
            return self.fail(now, Self::inconsistent(reason));
        }
        *page = read.kvs;
        let is_last = pages.is_complete();
        let (position, next) = (pages.position(), pages.request());
        let Some((cluster, revision)) = position else {
            return;
        };
        let is_same_cluster = self.view.cluster == Some(cluster);
        if is_first && is_same_cluster && revision < self.view.revision && !self.went_back {
            return self.fail_backward(now);
        }
        if !is_last {
            return self.read_next(now, next);
        }
        self.take_page();
        if matches!(self.phase, Phase::Reading { .. }) {
            self.finish_read(now, cluster, revision);
        }
    }

    fn read_next(&mut self, now: Instant, page: RangeRequest) {
        let id = self.request(page);
        if let Phase::Reading { request, until, .. } = &mut self.phase {
            *request = id;
            *until = now + self.config.timing.page;
        }
    }

    fn finish_read(&mut self, now: Instant, cluster: u64, revision: i64) {
        self.view.end_read(cluster, revision);
        self.went_back = false;
        self.read_at = Some(now);
        let lanes = self.view.lanes.iter();
        let diverged = lanes.filter(|(_, lane)| lane.is_diverged());
        let diverged: Vec<_> = diverged
            .filter_map(|(name, lane)| Some((name.clone(), lane.head.as_ref()?.seq)))
            .collect();
        let is_confirmed = diverged.iter().all(|lane| self.reread.contains(lane));
        self.reread.clone_from(&diverged);
        if let Some((lane, _)) = diverged.into_iter().next().filter(|_| !is_confirmed) {
            // A member whose data are damaged would give the same state again, so another member is asked (G-36).
            self.must_read = Some(ReadReason::Digest(lane));
            return self.fail(
                now,
                Self::inconsistent("the keys of a lane do not have the digest of its head"),
            );
        }
        self.must_read = None;
        self.follow(now);
    }

    /// Begins to read the stages that heads name, and gives up those that are not needed any more.
    pub(super) fn read_stages(&mut self, now: Instant) {
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        let wanted = |lane: &Segment| self.view.lanes.get(lane).map(|lane| lane.stage);
        following.stages.retain(|lane, read| {
            let stage = wanted(lane);
            matches!(stage, Some(Stage::Wanted { publish, .. }) if publish == read.publish)
        });
        let stages = self
            .view
            .lanes
            .iter()
            .filter_map(|(name, lane)| match lane.stage {
                Stage::Wanted { publish, revision } => Some((name.clone(), publish, revision)),
                Stage::None => None,
            });
        let missing = stages.filter(|(name, ..)| !following.stages.contains_key(name));
        let missing: Vec<_> = missing.collect();
        for (lane, publish, revision) in missing {
            self.read_stage(now, lane, publish, revision);
        }
    }

    fn read_stage(&mut self, now: Instant, lane: Segment, publish: PublishId, revision: i64) {
        let range = self.config.prefix.stage(&lane, publish);
        let pages = Pages::new(range, ReadAt::Revision(revision));
        let request = self.request(pages.request());
        let until = now + self.config.timing.page;
        let read = StageRead {
            publish,
            pages,
            request,
            until,
        };
        if let Phase::Following(following) = &mut self.phase {
            following.stages.insert(lane, read);
        }
    }

    /// Handles a page of a stage.
    pub(super) fn handle_stage_page(
        &mut self,
        now: Instant,
        id: RequestId,
        answer: Result<RangeResponse, Failure>,
    ) {
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        let mut stages = following.stages.iter_mut();
        let Some((lane, read)) = stages.find(|(_, read)| read.request == id) else {
            return;
        };
        let (lane, publish) = (lane.clone(), read.publish);
        let page = match answer {
            Ok(page) => page,
            Err(failure) if failure.kind == FailureKind::Compacted => {
                return self.read_all(now, ReadReason::Compacted);
            }
            Err(failure) if is_too_large(&failure) && read.pages.shrink() => {
                let fewer = read.pages.request();
                return self.read_next_of_stage(now, &lane, fewer);
            }
            Err(failure) => return self.fail(now, failure),
        };
        if let Err(reason) = read.pages.take(&page) {
            return self.fail(now, Self::inconsistent(reason));
        }
        let is_last = read.pages.is_complete();
        let next = read.pages.request();
        for kv in &page.kvs {
            if let Ok(Key::Staged(_, _, entry)) = self.config.prefix.parse(&kv.key) {
                self.view.put_staged(&lane, publish, entry, kv);
            }
        }
        if is_last {
            let reason = self.view.end_stage(&lane);
            self.doubt(now, reason.into_iter().collect());
            self.read_stages(now);
            return;
        }
        self.read_next_of_stage(now, &lane, next);
    }

    fn read_next_of_stage(&mut self, now: Instant, lane: &Segment, page: RangeRequest) {
        let id = self.request(page);
        let until = now + self.config.timing.page;
        if let Phase::Following(following) = &mut self.phase
            && let Some(read) = following.stages.get_mut(lane)
        {
            (read.request, read.until) = (id, until);
        }
    }
}

fn is_too_large(failure: &Failure) -> bool {
    failure.kind == FailureKind::ResponseTooLarge
}
