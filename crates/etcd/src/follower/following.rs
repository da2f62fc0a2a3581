//! The watch: events, progress, and the signs that it is silent, stuck or wrong.

use std::collections::BTreeMap;
use std::mem;

use oxds_types::etcd::{WatchCreateRequest, WatchResponse};

use super::effect::{Failure, FollowerTransmit, StreamId};
use super::event::{Notice, ReadReason};
use super::machine::Follower;
use super::phase::{Following, Phase};
use crate::format::FormatError;
use oxds_core::time::Instant;

impl Follower {
    /// Opens a watch after the revision of the view.
    pub(super) fn follow(&mut self, now: Instant) {
        let timing = self.config.timing;
        let stream = StreamId(self.new_id());
        let range = self.config.prefix.all();
        self.transmits.push_back(FollowerTransmit::OpenWatch {
            stream,
            request: WatchCreateRequest {
                key: range.start,
                range_end: range.end,
                start_revision: self.view.revision + 1,
                progress_notify: true,
                watch_id: 0,
                fragment: true,
            },
        });
        self.trouble = None;
        self.notice(Notice::Following {
            revision: self.view.revision,
        });
        self.phase = Phase::Following(Box::new(Following {
            stream,
            open_revision: None,
            silent_at: Some(now + timing.answer),
            probe_at: now + timing.probe,
            renew_at: now + timing.renew,
            check: None,
            expected: None,
            stages: BTreeMap::new(),
        }));
        self.read_stages(now);
    }

    /// Handles a response of the open watch.
    pub(super) fn watched(&mut self, now: Instant, response: &WatchResponse) {
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        following.silent_at = None;
        let Some(header) = &response.header else {
            return self.fail(now, Self::inconsistent("a watch response has no header"));
        };
        if Some(header.cluster_id) != self.view.cluster {
            return self.read_all(now, ReadReason::OtherCluster);
        }
        if response.canceled {
            return match response.compact_revision {
                0 => self.fail(now, Failure::canceled(&response.cancel_reason)),
                // Not from the compacted revision on: what was deleted before it has no event any more (G-18).
                _ => self.read_all(now, ReadReason::Compacted),
            };
        }
        if response.events.is_empty() {
            // In other responses the revision of the header is not the progress of the watch.
            if !response.created && !response.fragment && following.open_revision.is_none() {
                self.view.revision = self.view.revision.max(header.revision);
            }
        } else {
            match self.take_events(response) {
                Ok(reasons) => self.doubt(now, reasons),
                Err(error) => return self.stop(error),
            }
        }
        self.read_stages(now);
        self.compare_expected(now);
    }

    /// Takes the events of a response, revision by revision. Returns why the view cannot be right.
    fn take_events(&mut self, response: &WatchResponse) -> Result<Vec<ReadReason>, FormatError> {
        let Phase::Following(following) = &mut self.phase else {
            return Ok(Vec::new());
        };
        let mut open = following.open_revision.take();
        let (mut reasons, mut ignored) = (Vec::new(), 0);
        for event in &response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            // Events of the last revision are taken again: they may be the rest of a response that was split. Earlier
            // ones would take the view back; if one of them was missing, the digest shows it. Events before the
            // reported progress are new: etcd before 3.5.8 reports it too early (#15220).
            if revision < open.unwrap_or(self.view.delivered) {
                ignored += 1;
                continue;
            }
            if let Some(before) = open.filter(|before| *before < revision) {
                reasons.extend(self.view.complete(before));
            }
            open = Some(revision);
            self.view.observe(event)?;
        }
        if ignored > 0 {
            self.notice(Notice::Disorder { events: ignored });
        }
        if response.fragment {
            if let Phase::Following(following) = &mut self.phase {
                following.open_revision = open;
            }
        } else if let Some(open) = open {
            reasons.extend(self.view.complete(open));
        }
        Ok(reasons)
    }

    /// Reads everything again, because the view cannot be right.
    pub(super) fn doubt(&mut self, now: Instant, reasons: Vec<ReadReason>) {
        let elapsed = self.read_at.map(|at| now - at);
        let is_recent = |limit| elapsed.is_some_and(|elapsed| elapsed < limit);
        let timing = self.config.timing;
        // Another read of a lane whose keys contradict its head would change nothing, and would keep the other lanes
        // waiting.
        let is_known = |reason: &ReadReason| match reason {
            ReadReason::Digest(name) => {
                let lane = self.view.lanes.get(name);
                let is_known = lane.is_some_and(|lane| lane.diverged_since.is_some());
                is_known && is_recent(timing.reread)
            }
            _ => false,
        };
        let Some(reason) = reasons.into_iter().find(|reason| !is_known(reason)) else {
            return;
        };
        if is_recent(timing.answer) {
            // The same member was read a moment ago. It, or its watch, is at fault.
            let failure = Self::inconsistent(&reason.to_string());
            self.must_read = Some(reason);
            return self.fail(now, failure);
        }
        self.read_all(now, reason);
    }

    /// Compares the view with the heads that a read found, as soon as it has reached their revision.
    pub(super) fn compare_expected(&mut self, now: Instant) {
        let wait = self.config.timing.probe + self.config.timing.answer;
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        let Some(expected) = &mut following.expected else {
            return;
        };
        if self.view.revision < expected.checked.revision {
            if expected.seen < self.view.revision {
                (expected.seen, expected.until) = (self.view.revision, now + wait);
            }
            return;
        }
        let lost = expected.checked.lost(&self.view.lanes);
        following.expected = None;
        match lost {
            Some(reason) => self.doubt(now, vec![reason]),
            None => {
                self.retry.reset();
                self.view.confirm_unpublished();
            }
        }
    }

    /// Does what is due while a watch is open.
    pub(super) fn tick(&mut self, now: Instant) {
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= now);
        let check_until = following.check.as_ref().map(|(_, until)| *until);
        let expected_until = following.expected.as_ref().map(|expected| expected.until);
        if is_due(&following.silent_at) {
            return self.fail_silent(now, "no answer to a progress request");
        }
        if is_due(&check_until) {
            return self.fail_silent(now, "no answer to a read of the heads");
        }
        if is_due(&expected_until) {
            return self.fail_silent(
                now,
                "the watch does not advance to the revision of the cluster",
            );
        }
        if following.stages.values().any(|stage| stage.until <= now) {
            return self.fail_silent(now, "no answer to a read of staged keys");
        }
        if following.renew_at <= now {
            // etcd does not end a watch when the permission is revoked (G-31).
            let stream = following.stream;
            let transmit = FollowerTransmit::CloseWatch { stream };
            self.transmits.push_back(transmit);
            return self.begin(now);
        }
        if following.probe_at <= now {
            self.probe(now);
        }
    }

    /// Requests progress, and reads the heads: a member without a quorum answers the first, and not the second.
    fn probe(&mut self, now: Instant) {
        let timing = self.config.timing;
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        following.probe_at = now + timing.probe;
        let silent_at = mem::take(&mut following.silent_at);
        following.silent_at = silent_at.or(Some(now + timing.answer));
        let stream = following.stream;
        let is_idle = following.check.is_none() && following.expected.is_none();
        let transmit = FollowerTransmit::RequestProgress { stream };
        self.transmits.push_back(transmit);
        if is_idle {
            let check = self.check();
            if let Phase::Following(following) = &mut self.phase {
                following.check = Some((check, now + timing.answer));
            }
        }
    }
}
