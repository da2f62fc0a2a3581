//! Middle of the work: the changes are merged with the published state, and the caller checks the result.

use std::mem;

use super::attribution::Attribution;
use super::error::PublishError;
use super::event::{MergedState, PublishEvent, PublishOutcome};
use super::plan::{
    Changes, Entries, Merged, conflicts, entries_of, merge, result, versions_by_type,
};
use super::summary::Summary;
use super::work::{Phase, Plan, Work};
use crate::entry::Entry;
use crate::head::Head;
use crate::lane_state::{Content, lossy};
use crate::names::Segment;
use oxds_core::time::Instant;

impl Work {
    /// Merges the changes with the published state.
    pub(super) fn plan(&mut self) {
        let changes = self.changes.take().unwrap_or_default();
        let published = self.target();
        let conflicting = if self.options.force {
            Vec::new()
        } else {
            conflicts(&changes, published)
        };
        let elsewhere = changes.iter().filter(|(_, change)| change.new.is_some());
        let elsewhere =
            elsewhere.filter_map(|(entry, _)| Some((entry.clone(), self.owner(entry)?)));
        let elsewhere = elsewhere.collect::<Vec<_>>().into_iter().next();
        let digest = self.repaired.as_ref().map_or(self.digest, Content::digest);
        let merged = merge(&changes, published, digest);
        match (&self.head, elsewhere) {
            (Some(latest), _) if !conflicting.is_empty() => {
                let revision = |entry: &Entry| {
                    let held = self.lane.content.entries.get(entry);
                    held.map(|held| held.mod_revision)
                };
                let entries = conflicting
                    .into_iter()
                    .map(|entry| (entry.clone(), revision(&entry)));
                let entries = entries.collect();
                let attribution = Attribution::new(self.keys.head(), latest.clone(), entries);
                self.phase = Phase::Attribute(Box::new(attribution));
                self.attribute();
            }
            (_, Some((entry, lane))) => self.fail(PublishError::OtherLane { entry, lane }),
            _ => self.propose(&changes, merged),
        }
        // Another attempt merges them with another state.
        self.changes = Some(changes);
    }

    /// Returns the other lane that has an entry (G-6).
    fn owner(&self, entry: &Entry) -> Option<Segment> {
        let mut others = self.others.iter();
        let other = others.find(|(_, lane)| lane.content.entries.contains_key(entry));
        other.map(|(lane, _)| lane.clone())
    }

    /// Fails with the conflicts as soon as their publishes are known.
    pub(super) fn attribute(&mut self) {
        if let Phase::Attribute(attribution) = &self.phase
            && attribution.request().is_none()
        {
            let conflicts = attribution.conflicts();
            self.fail(PublishError::Conflicts(conflicts));
        }
    }

    /// Asks the caller for a verdict, if there is anything to write.
    fn propose(&mut self, changes: &Changes, merged: Merged) {
        let Merged { summary, digest } = merged;
        // Another attempt reads them again.
        let (in_etcd, repaired) = (mem::take(&mut self.lane.content), self.repaired.take());
        let (result, writes) = result(in_etcd, repaired, changes, &summary);
        let (seq, parent) = match &self.head {
            Some(seen) => (seen.head.seq, Some(seen.head.publish)),
            None => (0, None),
        };
        let is_published = self
            .head
            .as_ref()
            .is_some_and(|seen| seen.head.digest == digest);
        // After a restore, replicas follow only a seq that is greater than the one they serve (G-27).
        if is_published && writes.is_empty() && self.served <= seq {
            return self.done(Ok(PublishOutcome::Unchanged { seq }));
        }
        let options = &self.options;
        let types = versions_by_type(&result);
        let head = Head::new(self.id, parent, seq.max(self.served) + 1, digest)
            .described(&options.by, options.at, &options.note)
            .with_types(types.iter().map(|(of, version)| (of, *version)));
        let state = self.merged_state(result, summary.clone());
        self.plan = Some(Plan {
            head,
            writes,
            summary,
        });
        self.phase = Phase::Verdict;
        self.events.push_back(PublishEvent::Validate(state));
    }

    fn merged_state(&mut self, result: Entries, summary: Summary) -> MergedState {
        let own = result.into_iter();
        let own = own.map(|(entry, stored)| (self.keys.lane.clone(), entry, stored));
        let (mut entries, mut unreadable): (Vec<_>, _) = (own.collect(), Vec::new());
        for (lane, state) in mem::take(&mut self.others) {
            let bad = state.content.unreadable.iter();
            unreadable.extend(
                bad.map(|(rest, bad)| (format!("l/{lane}/{}", lossy(rest)), bad.reason.clone())),
            );
            let held = entries_of(state.content).into_iter();
            entries.extend(held.map(|(entry, stored)| (lane.clone(), entry, stored)));
        }
        MergedState {
            entries,
            unreadable,
            summary,
        }
    }

    /// Handles the verdict of the caller (G-12).
    pub(super) fn take_verdict(&mut self, now: Instant, is_valid: bool) {
        let Phase::Verdict = self.phase else {
            return;
        };
        let summary = self.plan.as_ref().map(|plan| plan.summary.clone());
        match (is_valid, self.options.dry_run) {
            (false, _) => self.fail(PublishError::Invalid),
            (true, true) => {
                let summary = summary.unwrap_or_default();
                self.done(Ok(PublishOutcome::DryRun(summary)));
            }
            (true, false) => self.write(now),
        }
    }
}
