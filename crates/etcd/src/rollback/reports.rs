//! All NACK reports and rollback decisions below a prefix, as they were read and watched.

use std::collections::BTreeMap;

use super::decision::Decision;
use super::report::NackReport;
use crate::entry::Place;
use crate::keys::BadVersion;
use crate::names::Segment;

/// Reports and decisions.
#[derive(Debug, Default)]
pub struct Reports {
    /// With the revisions at which they were written.
    nacks: BTreeMap<BadVersion, BTreeMap<Segment, (NackReport, i64)>>,
    decisions: BTreeMap<(Segment, Place), (Result<Decision, String>, i64)>,
    changes: u64,
}

impl Reports {
    /// Forgets everything: a complete read begins.
    pub fn clear(&mut self) {
        self.nacks.clear();
        self.decisions.clear();
        self.changes += 1;
    }

    /// Sets a report, which was written at this revision. One that cannot be read counts as absent, so it prevents a
    /// decision.
    pub fn put_report(&mut self, bad: BadVersion, replica: Segment, value: &[u8], revision: i64) {
        self.changes += 1;
        let Some(report) = NackReport::decode(value) else {
            return self.delete_report(&bad, &replica);
        };
        let of_version = self.nacks.entry(bad).or_default();
        of_version.insert(replica, (report, revision));
    }

    /// Removes a report.
    pub fn delete_report(&mut self, bad: &BadVersion, replica: &Segment) {
        self.changes += 1;
        if let Some(of_version) = self.nacks.get_mut(bad) {
            of_version.remove(replica);
            if of_version.is_empty() {
                self.nacks.remove(bad);
            }
        }
    }

    /// Sets a decision, which was written at this revision.
    pub fn put_decision(&mut self, lane: Segment, place: Place, value: &[u8], revision: i64) {
        self.changes += 1;
        let decision = Decision::decode(value);
        self.decisions.insert((lane, place), (decision, revision));
    }

    /// Removes a decision.
    pub fn delete_decision(&mut self, lane: Segment, place: Place) {
        self.changes += 1;
        self.decisions.remove(&(lane, place));
    }

    /// Returns a number that grows with each change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the versions that have reports.
    pub fn reported(&self) -> impl Iterator<Item = &BadVersion> {
        self.nacks.keys()
    }

    /// Returns the report of a replica about a version.
    #[must_use]
    pub fn report(&self, bad: &BadVersion, replica: &Segment) -> Option<&NackReport> {
        let (report, _) = self.nacks.get(bad)?.get(replica)?;
        Some(report)
    }

    /// Returns the replicas that have reports about a version, with the revisions at which they were written.
    pub fn revisions(&self, bad: &BadVersion) -> impl Iterator<Item = (&Segment, i64)> {
        let of_version = self.nacks.get(bad).into_iter().flatten();
        of_version.map(|(replica, (_, revision))| (replica, *revision))
    }

    /// Returns the decision at a place, or why it cannot be read, and the revision at which it was written.
    #[must_use]
    pub fn decision(
        &self,
        lane: &Segment,
        place: &Place,
    ) -> Option<&(Result<Decision, String>, i64)> {
        // The key of a map of pairs is a pair.
        self.decisions.get(&(lane.clone(), place.clone()))
    }

    /// Returns all decisions, with lane, place and revision.
    pub fn decisions(
        &self,
    ) -> impl Iterator<Item = (&Segment, &Place, &Result<Decision, String>, i64)> {
        let decisions = self.decisions.iter();
        decisions.map(|((lane, place), (decision, revision))| (lane, place, decision, *revision))
    }
}
