//! First half of the work: what etcd has, and what the publish is based on.

use std::collections::VecDeque;

use bytes::Bytes;
use oxds_types::etcd::{
    KeyValue, RangeRequest, RangeResponse, Request, RequestOp, TxnRequest, TxnResponse,
};

use super::completion::{Completed, Completion};
use super::error::PublishError;
use super::event::PublishEvent;
use super::options::Foreign;
use super::plan::{Changes, changes};
use super::request::{PublishAnswer, range_of};
use super::walk::{Step, Walk, head_at};
use super::work::{Phase, Work};
use crate::entry::Entry;
use crate::format;
use crate::keys::Key;
use crate::lane_state::{Content, SeenHead, lossy, read_lanes};
use crate::names::PublishId;
use crate::pages::{Pages, ReadAt};
use crate::replica_status::ReplicaStatus;

impl Work {
    /// Returns the transaction that reads the format, the head and the statuses of the replicas, at one revision.
    pub(super) fn begin_request(&self) -> TxnRequest {
        let format = head_at(&self.keys.prefix.key(&Key::Format), 0);
        let head = head_at(&self.keys.head(), 0);
        let statuses = self.keys.prefix.statuses().request();
        let read = |range: RangeRequest| RequestOp {
            request: Some(Request::Range(range)),
        };
        TxnRequest {
            success: [format, head, statuses].map(read).into(),
            ..TxnRequest::default()
        }
    }

    pub(super) fn take_begin(&mut self, response: &TxnResponse) {
        self.revision = response.header.map_or(0, |header| header.revision);
        self.served = self.greatest_seq(range_of(response, 2));
        if let Some(kv) = range_of(response, 0).first() {
            self.has_format = true;
            if let Err(error) = format::check_key(&kv.value) {
                return self.fail(error);
            }
        }
        let head = range_of(response, 1).first().map(SeenHead::decode);
        match head.transpose() {
            Err(error) => {
                let lane = self.keys.lane.clone();
                self.fail(PublishError::Head { lane, error });
            }
            Ok(Some(seen)) if seen.head.staged.is_some() && !self.options.dry_run => {
                self.complete(seen);
            }
            Ok(head) => {
                self.head = head;
                let at = ReadAt::Revision(self.revision);
                self.phase = Phase::Read(Pages::new(self.keys.prefix.lanes(), at));
            }
        }
    }

    /// Begins with the completion of the publish that the head names.
    fn complete(&mut self, seen: SeenHead) {
        let (keys, limit) = (self.keys.clone(), self.options.request_limit);
        let completion = Box::new(Completion::of_another(keys, seen, limit));
        let is_own = false;
        self.phase = Phase::Complete { completion, is_own };
    }

    /// Handles an answer to the completion of another writer's publish.
    pub(super) fn take_completion(
        &mut self,
        mut completion: Box<Completion>,
        answer: PublishAnswer,
    ) {
        match completion.take(answer) {
            Completed::More => {
                let is_own = false;
                self.phase = Phase::Complete { completion, is_own };
            }
            done => {
                if done == Completed::Done {
                    let head = &completion.seen().head;
                    let (publish, by) = (head.publish, head.by.clone());
                    self.events
                        .push_back(PublishEvent::Completed { publish, by });
                }
                self.begin();
            }
        }
    }

    /// Returns the greatest seq of the lane that a replica serves; 0 if no replica serves it (G-27).
    fn greatest_seq(&self, statuses: &[KeyValue]) -> u64 {
        let statuses = statuses
            .iter()
            .filter_map(|kv| ReplicaStatus::decode(&kv.value));
        let served = statuses.filter_map(|status| Some(status.lane(&self.keys.lane)?.seq));
        served.max().unwrap_or(0)
    }

    /// Handles a page of all lanes, which the pages have checked.
    pub(super) fn take_read(&mut self, pages: Pages, response: RangeResponse) {
        self.kvs.extend(response.kvs);
        if !pages.is_complete() {
            self.phase = Phase::Read(pages);
            return;
        }
        let mut lanes = read_lanes(&self.keys.prefix, std::mem::take(&mut self.kvs));
        self.lane = lanes.remove(&self.keys.lane).unwrap_or_default();
        self.others = lanes;
        let dead = self.lane.dead_stages();
        if dead.is_empty() || self.options.dry_run {
            self.examine();
        } else {
            self.phase = Phase::Undo(dead.into());
        }
    }

    /// Handles the deletion of a stage, unless its writer has returned or the head has changed.
    pub(super) fn take_undo(&mut self, mut dead: VecDeque<PublishId>, is_deleted: bool) {
        if let Some(publish) = dead.pop_front()
            && is_deleted
        {
            self.events.push_back(PublishEvent::Undone { publish });
        }
        if dead.is_empty() {
            self.examine();
        } else {
            self.phase = Phase::Undo(dead);
        }
    }

    /// Compares the lane with its head.
    pub(super) fn examine(&mut self) {
        let (seq, expected) = match &self.head {
            Some(seen) => (seen.head.seq, seen.head.digest),
            None => Default::default(),
        };
        if self.served > seq && !self.options.accept_restored {
            let (serving, store) = (self.served, seq);
            return self.fail(PublishError::WentBack { serving, store });
        }
        self.digest = self.lane.content.digest();
        let content = &self.lane.content;
        if let Some(error) = content.newer_format() {
            return self.fail(error);
        }
        if content.unreadable.is_empty() && self.digest == expected {
            return self.find_base();
        }
        match (self.options.foreign, &self.head) {
            (Foreign::Adopt, _) => match unreadable(content, self.base()) {
                keys if keys.is_empty() => self.find_base(),
                keys => self.fail(PublishError::Unreadable { keys }),
            },
            (_, None) => self.take_published(Some(Content::default())),
            (_, Some(seen)) => {
                let range = self.keys.prefix.lane(&self.keys.lane);
                self.phase =
                    Phase::ReadPublished(Pages::new(range, ReadAt::Revision(seen.mod_revision)));
            }
        }
    }

    /// Collects pages of the lane at an older revision. Returns the content when it is complete.
    pub(super) fn collect(&mut self, pages: &Pages, response: RangeResponse) -> Option<Content> {
        self.kvs.extend(response.kvs);
        pages.is_complete().then(|| {
            let mut lanes = read_lanes(&self.keys.prefix, std::mem::take(&mut self.kvs));
            lanes.remove(&self.keys.lane).unwrap_or_default().content
        })
    }

    /// Handles the state of the lane at its head; `None` if it was compacted.
    pub(super) fn take_published(&mut self, published: Option<Content>) {
        let expected = self.head.as_ref().map(|seen| seen.head.digest);
        let published =
            published.filter(|content| content.digest() == expected.unwrap_or_default());
        let keys = match &published {
            Some(published) => published.differences(&self.lane.content),
            None => self.lane.content.written_after(self.base()),
        };
        match (self.options.foreign, published) {
            (Foreign::Repair, Some(published)) => {
                self.repaired = Some(published);
                self.find_base();
            }
            (Foreign::Repair, None) => self.fail(PublishError::Irreparable { keys }),
            _ => self.fail(PublishError::Foreign { keys }),
        }
    }

    /// Returns the state that is published, or that will be after a repair.
    pub(super) fn target(&self) -> &Content {
        self.repaired.as_ref().unwrap_or(&self.lane.content)
    }

    /// Makes the changes against the base, if that was not done in an attempt before.
    pub(super) fn find_base(&mut self) {
        if self.changes.is_some() {
            return self.plan();
        }
        let Some(wanted) = &self.wanted else {
            self.phase = Phase::Want;
            return;
        };
        let publish = self.head.as_ref().map(|seen| seen.head.publish);
        match self.options.base.filter(|base| Some(*base) != publish) {
            None => {
                let changes = changes(wanted, self.target(), self.options.prune);
                self.take_changes(changes);
            }
            Some(base) if publish.is_none() => self.fail(PublishError::UnknownBase(base)),
            Some(base) => {
                self.phase = Phase::FindBase(Walk::new(self.keys.head(), base, self.base(), 0));
            }
        }
    }

    pub(super) fn take_walk_to_base(&mut self, mut walk: Walk, response: &RangeResponse) {
        match walk.take(response) {
            Ok(Step::More) => self.phase = Phase::FindBase(walk),
            Ok(Step::Found(seen)) => {
                let range = self.keys.prefix.lane(&self.keys.lane);
                self.phase =
                    Phase::ReadBase(Pages::new(range, ReadAt::Revision(seen.mod_revision)));
            }
            Ok(Step::Absent | Step::GaveUp) | Err(_) => self.lose_base(),
        }
    }

    /// Fails because the base is unknown.
    pub(super) fn lose_base(&mut self) {
        let base = self.options.base.unwrap_or(self.id);
        self.fail(PublishError::UnknownBase(base));
    }

    pub(super) fn take_base(&mut self, base: &Content) {
        if let Some(wanted) = &self.wanted {
            self.take_changes(changes(wanted, base, self.options.prune));
        }
    }

    fn take_changes(&mut self, changes: Changes) {
        self.changes = Some(changes);
        self.plan();
    }
}

/// Returns the changed entries that cannot be published, with the reasons.
fn unreadable(content: &Content, published_at: i64) -> Vec<String> {
    let unreadable = content.unreadable.iter();
    let unreadable =
        unreadable.map(|(rest, held): (&Bytes, _)| format!("{} ({})", lossy(rest), held.reason));
    let changed = content
        .entries
        .iter()
        .filter(|(_, held)| held.mod_revision > published_at);
    let invalid = changed.filter_map(|(entry, held)| {
        let error = match entry {
            Entry::Matcher(_) => held.stored.matcher().err(),
            Entry::Resource(place) => held.stored.resource(place).err(),
        };
        Some(format!("{entry} ({})", error?))
    });
    unreadable.chain(invalid).collect()
}
