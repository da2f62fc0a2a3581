//! The followed state, as the rollbacks of all replicas need it (G-38).

use oxds_types::Version;

use super::machine::Follower;
use crate::entry::{Entry, Place};
use crate::names::Segment;
use crate::rollback::{Decision, Published, Reports};

impl Follower {
    /// Returns a number that grows when something changes that [`Published`] returns.
    #[must_use]
    pub fn fleet_changes(&self) -> u64 {
        self.view.fleet_changes
    }

    /// Returns the decisions of all replicas that apply to what is served, with their lanes.
    pub fn rollbacks(&self) -> impl Iterator<Item = (&Segment, &Decision)> {
        let decisions = self.view.reports.decisions();
        decisions.filter_map(|(lane, _, decision, _)| {
            let decision = decision.as_ref().ok()?;
            let applies = self.view.lanes.applies(lane, decision);
            applies.then_some((lane, decision))
        })
    }

    /// Returns the number of streams of this replica, as the others see it; `None` if it has no status in the store.
    #[must_use]
    pub fn reported_streams(&self) -> Option<u64> {
        self.view.replicas.streams_of(&self.config.replica)
    }

    /// Returns the number of streams of each other live replica, as it reported them.
    pub fn streams_of_others(&self) -> impl Iterator<Item = u64> {
        self.view.replicas.streams_but(&self.config.replica)
    }
}

impl Published for Follower {
    fn reports(&self) -> &Reports {
        &self.view.reports
    }

    fn replicas(&self) -> Vec<Segment> {
        self.view.replicas.ids().cloned().collect()
    }

    fn lane_of(&self, place: &Place) -> Option<Segment> {
        let entry = Entry::Resource(place.clone());
        let mut lanes = self.view.lanes.iter();
        let (lane, _) = lanes.find(|(_, lane)| lane.serves(&entry))?;
        Some(lane.clone())
    }

    fn version(&self, lane: &Segment, place: &Place) -> Option<Version> {
        let entry = Entry::Resource(place.clone());
        self.view.lanes.get(lane)?.served_version(&entry)
    }

    fn revision(&self) -> i64 {
        self.view.revision
    }

    fn head_revision(&self, lane: &Segment) -> Option<i64> {
        let lane = self.view.lanes.get(lane)?;
        lane.has_served_publish().then_some(lane.head_revision)
    }

    fn applies(&self, lane: &Segment, decision: &Decision) -> bool {
        self.view.lanes.applies(lane, decision)
    }
}
