//! View of the store: what was read and watched of the prefix, up to a revision.

use std::collections::{BTreeMap, BTreeSet};

use oxds_types::etcd::{Event, EventType, KeyValue};

use super::event::{Notice, ReadReason};
use super::lane::{Lane, Stage, Succession};
use super::lanes::{Adopted, Lanes};
use super::replicas::Replicas;
use crate::entry::Entry;
use crate::format::{self, FormatError};
use crate::head::HeadError;
use crate::keys::Key;
use crate::names::{Prefix, PublishId, Segment};
use crate::rollback::Reports;
use oxds_core::time::Instant;

/// View of the store.
#[derive(Debug)]
pub(super) struct View {
    prefix: Prefix,
    accept_restored: bool,
    /// Cluster that was read; `None` before the first complete read.
    pub(super) cluster: Option<u64>,
    /// All changes up to this revision are in the view, as far as etcd reports progress truly.
    pub(super) revision: i64,
    /// Revision of the last read or of the last event, whichever is later.
    pub(super) delivered: i64,
    pub(super) lanes: Lanes,
    pub(super) replicas: Replicas,
    /// NACK reports and rollback decisions.
    pub(super) reports: Reports,
    /// Number of changes of statuses, reports, decisions and served publishes.
    pub(super) fleet_changes: u64,
    /// [`Reports::changes`] when lanes were settled last.
    reports_seen: u64,
    /// Lanes that were changed by the revision that is being read; true if their head was.
    touched: BTreeMap<Segment, bool>,
    /// A status changed. Before the first update, it decides whether the store went back.
    has_new_status: bool,
    /// Lanes whose head is not a descendant of the one before.
    broken: BTreeSet<Segment>,
    /// Notices for the machine to report.
    pub(super) notices: Vec<Notice>,
}

impl View {
    pub(super) fn new(prefix: Prefix, accept_restored: bool, lanes: Lanes) -> Self {
        Self {
            prefix,
            accept_restored,
            cluster: None,
            revision: 0,
            delivered: 0,
            lanes,
            replicas: Replicas::default(),
            reports: Reports::default(),
            fleet_changes: 0,
            reports_seen: 0,
            touched: BTreeMap::new(),
            has_new_status: false,
            broken: BTreeSet::new(),
            notices: Vec::new(),
        }
    }

    /// Begins a complete read.
    pub(super) fn begin_read(&mut self) {
        self.replicas.clear();
        self.reports.clear();
        self.touched.clear();
        self.broken.clear();
        self.lanes.begin_read();
    }

    /// Takes a key of a complete read. The keys come in their order, so a head comes before the stage that it names.
    ///
    /// # Errors
    /// The store has a format that this build does not read.
    pub(super) fn read(&mut self, kv: &KeyValue) -> Result<(), FormatError> {
        match self.prefix.parse(&kv.key) {
            Ok(Key::Staged(lane, publish, entry)) => {
                self.put_staged(&lane, publish, entry, kv);
                Ok(())
            }
            Ok(key) => self.put(key, kv),
            Err(_) => Ok(()),
        }
    }

    /// Ends a complete read at this revision, and adopts what may be served.
    pub(super) fn end_read(&mut self, cluster: u64, revision: i64) {
        self.cluster = Some(cluster);
        self.revision = revision;
        self.delivered = revision;
        self.touched.clear();
        self.broken.clear();
        self.lanes.end_read(revision);
        self.settle();
    }

    /// Takes an event of a watch. Call [`complete`](Self::complete) after the last event of its revision.
    ///
    /// # Errors
    /// The store has a format that this build does not read.
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), FormatError> {
        let Some(kv) = &event.kv else {
            return Ok(());
        };
        let Ok(key) = self.prefix.parse(&kv.key) else {
            return Ok(());
        };
        if event.r#type() == EventType::Put {
            return self.put(key, kv);
        }
        match key {
            Key::Head(lane) => {
                self.touched.insert(lane.clone(), true);
                self.lanes.lane(&lane).delete_head(kv.mod_revision);
            }
            Key::Entry(lane, entry) => {
                self.touched.entry(lane.clone()).or_default();
                self.lanes.lane(&lane).delete(entry, kv.mod_revision);
            }
            Key::Status(replica) => {
                self.has_new_status = true;
                self.replicas.delete(&replica);
            }
            Key::Rollback(lane, place) => self.reports.delete_decision(lane, place),
            Key::Nack(bad, replica) => {
                self.reports.delete_report(&bad, &replica);
            }
            Key::Staged(name, publish, _) => {
                if let Some(lane) = self.lanes.get_mut(&name) {
                    lane.unwatch_staged(publish);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, key: Key, kv: &KeyValue) -> Result<(), FormatError> {
        let (created, revision) = (kv.create_revision, kv.mod_revision);
        match key {
            Key::Format => format::check_key(&kv.value)?,
            Key::Head(name) => {
                self.touched.insert(name.clone(), true);
                match self.lanes.lane(&name).put_head(revision, &kv.value) {
                    Ok(Succession::Kept) | Err(HeadError::Malformed(_)) => {}
                    Ok(Succession::Broken) => {
                        self.broken.insert(name);
                    }
                    Err(HeadError::Format(error)) => return Err(error),
                }
            }
            Key::Entry(lane, entry) => {
                self.touched.entry(lane.clone()).or_default();
                self.lanes
                    .lane(&lane)
                    .put(entry, created, revision, &kv.value);
            }
            Key::Status(replica) => {
                self.has_new_status = true;
                self.replicas.put(replica, &kv.value);
            }
            Key::Rollback(lane, place) => {
                self.reports.put_decision(lane, place, &kv.value, revision);
            }
            Key::Nack(bad, replica) => {
                self.reports.put_report(bad, replica, &kv.value, revision);
            }
            Key::Staged(name, publish, entry) => {
                if let Some(lane) = self.lanes.get_mut(&name) {
                    lane.watch_staged(publish, entry, kv);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a key of a stage that was read: a publish that is complete only with it. Other stages are ignored.
    pub(super) fn put_staged(
        &mut self,
        lane: &Segment,
        publish: PublishId,
        entry: Entry,
        kv: &KeyValue,
    ) {
        let lane = self.lanes.lane(lane);
        if let Some(head) = &lane.head
            && head.staged == Some(publish)
        {
            let at = lane.head_revision;
            lane.put_staged(entry, kv.create_revision, at, &kv.value);
        }
    }

    /// Ends a revision: its events are complete. Adopts what its heads vouch for, and returns why the view cannot be
    /// right, for each lane of which that is known.
    pub(super) fn complete(&mut self, revision: i64) -> Vec<ReadReason> {
        self.revision = self.revision.max(revision);
        self.delivered = revision;
        let touched = std::mem::take(&mut self.touched);
        let mut reasons: Vec<_> = std::mem::take(&mut self.broken)
            .into_iter()
            .map(ReadReason::OtherHistory)
            .collect();
        for (name, has_head) in &touched {
            let lane = self.lanes.lane(name);
            if *has_head && lane.lacks_changes() {
                reasons.push(ReadReason::Digest(name.clone()));
            }
        }
        let has_new_reports = self.reports.changes() != self.reports_seen;
        if std::mem::take(&mut self.has_new_status) || !touched.is_empty() || has_new_reports {
            self.settle();
        }
        reasons
    }

    /// Ends the read of the stage of a lane.
    pub(super) fn end_stage(&mut self, name: &Segment) -> Option<ReadReason> {
        let lane = self.lanes.lane(name);
        lane.stage = Stage::None;
        if lane.is_diverged() {
            return Some(ReadReason::Digest(name.clone()));
        }
        self.settle();
        None
    }

    fn settle(&mut self) {
        self.fleet_changes += 1;
        self.reports_seen = self.reports.changes();
        for adopted in self.lanes.settle(&self.replicas, self.accept_restored) {
            self.notices.extend(adopted.broken_chain());
        }
        self.lanes.follow_decisions(&self.reports);
    }

    /// Notes since when lanes have not what the store has.
    pub(super) fn track(&mut self, now: Instant) {
        for (_, lane) in self.lanes.iter_mut() {
            // A read under way decides nothing.
            let is_diverged = if lane.is_reading() {
                lane.diverged_since.is_some()
            } else {
                lane.is_diverged()
            };
            lane.diverged_since = is_diverged.then(|| lane.diverged_since.unwrap_or(now));
            let is_behind = lane.latest > lane.delivered;
            lane.behind_since = is_behind.then(|| lane.behind_since.unwrap_or(now));
            lane.is_unpublished_known &= lane.is_unpublished();
        }
    }

    /// Reports changes without a publish from now on: a read found no other head than the known one.
    pub(super) fn confirm_unpublished(&mut self) {
        for (_, lane) in self.lanes.iter_mut() {
            lane.is_unpublished_known = lane.is_unpublished();
        }
    }
}

impl Lane {
    /// Decides what a new head means: returns whether changes are missing that it vouches for. Those of a stage are
    /// taken from the watch, and are read if it has not shown all.
    fn lacks_changes(&mut self) -> bool {
        let Some(head) = &self.head else {
            self.stage = Stage::None;
            return false;
        };
        if self.is_vouched_for() || self.head_error.is_some() {
            self.stage = Stage::None;
            return false;
        }
        match (head.staged, self.stage) {
            (
                Some(publish),
                Stage::Wanted {
                    publish: wanted, ..
                },
            ) if publish == wanted => false,
            (Some(publish), _) => {
                self.apply_watched(publish);
                let revision = self.head_revision;
                self.stage = if self.is_vouched_for() {
                    Stage::None
                } else {
                    Stage::Wanted { publish, revision }
                };
                false
            }
            (None, _) => {
                self.stage = Stage::None;
                true
            }
        }
    }
}

impl Adopted {
    /// Returns a notice if it is certain that the new head is not a descendant of the one before.
    fn broken_chain(self) -> Option<Notice> {
        let from = self.from?;
        let same = from.publish == self.to.publish;
        let is_child = self.to.parent == Some(from.publish);
        let is_later = self.to.seq > from.seq + 1;
        (!same && !is_child && !is_later).then_some(Notice::ChainBroken {
            lane: self.lane,
            from: from.seq,
            to: self.to.seq,
        })
    }
}
