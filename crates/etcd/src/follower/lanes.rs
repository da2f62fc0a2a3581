//! All lanes: which of them may be served, and the union of those that are (G-6).
//!
//! A lane is adopted if its head vouches for it, unless the store went back (G-27) or another lane has one of its
//! entries (G-6). The first time all lanes are adopted, or none: a replica that served only some of them would remove
//! the resources of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::held::{Good, Held};
use super::lane::{Lane, Obstacle};
use super::replicas::Replicas;
use crate::entry::Entry;
use crate::head::Head;
use crate::names::Segment;
use crate::rollback::{Decision, Reports};

/// Lanes of the prefix, and the entries that changed since the last update.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: BTreeMap<Segment, Lane>,
    /// A complete read is under way.
    is_reading: bool,
    /// All lanes were adopted once, so each has a served state.
    is_loaded: bool,
    /// State that was served before the process started, until the lanes are loaded.
    saved: BTreeMap<Entry, Good>,
    dirty: BTreeSet<Entry>,
    /// Publishes that were adopted since the last update.
    publishes: u64,
    /// Entries that a decision of all replicas rolls back, with what is served instead (G-38).
    rolled_back: BTreeMap<Entry, Option<Good>>,
    /// Entries that are not rolled back any more since the last update.
    returned: BTreeSet<Entry>,
    /// Decisions changed what is served since the last update.
    has_new_rollbacks: bool,
}

/// Changes since the last update.
#[derive(Debug)]
pub(super) struct Dirty {
    pub(super) entries: BTreeSet<Entry>,
    /// Those of the entries that are not rolled back any more.
    pub(super) returned: BTreeSet<Entry>,
    /// Number of publishes; none if only decisions changed.
    pub(super) publishes: u64,
}

/// A lane whose state is served from now on.
#[derive(Debug, PartialEq)]
pub(super) struct Adopted {
    pub(super) lane: Segment,
    /// Head that was served before.
    pub(super) from: Option<Head>,
    pub(super) to: Head,
}

impl Lanes {
    /// Makes lanes that were served by an earlier process: their heads and entries.
    pub(super) fn saved(
        heads: impl IntoIterator<Item = (Segment, Head)>,
        entries: impl IntoIterator<Item = (Entry, Good)>,
    ) -> Self {
        let lane = |(name, head)| (name, Lane::saved(head));
        Self {
            lanes: heads.into_iter().map(lane).collect(),
            saved: entries.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns whether a state is served: of this process, or of an earlier one.
    pub(super) fn has_state(&self) -> bool {
        self.is_loaded || self.lanes.values().any(|lane| lane.serving.is_some())
    }

    pub(super) fn get(&self, lane: &Segment) -> Option<&Lane> {
        self.lanes.get(lane)
    }

    pub(super) fn get_mut(&mut self, lane: &Segment) -> Option<&mut Lane> {
        self.lanes.get_mut(lane)
    }

    /// Begins a complete read.
    pub(super) fn begin_read(&mut self) {
        self.is_reading = true;
        self.lanes.values_mut().for_each(Lane::begin_read);
    }

    /// Ends a complete read at this revision.
    pub(super) fn end_read(&mut self, revision: i64) {
        self.is_reading = false;
        for lane in self.lanes.values_mut() {
            lane.end_read(revision);
        }
    }

    /// Returns a lane; a new one if it is not known.
    pub(super) fn lane(&mut self, lane: &Segment) -> &mut Lane {
        let is_reading = self.is_reading;
        self.lanes.entry(lane.clone()).or_insert_with(|| {
            let mut lane = Lane::default();
            if is_reading {
                lane.begin_read();
            }
            lane
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Segment, &Lane)> {
        self.lanes.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Segment, &mut Lane)> {
        self.lanes.iter_mut()
    }

    /// Returns the lane that serves an entry, and its value.
    pub(super) fn held(&mut self, entry: &Entry) -> Option<(&Segment, &mut Held)> {
        let mut lanes = self.lanes.iter_mut();
        lanes.find_map(|(name, lane)| Some((name, lane.held(entry)?)))
    }

    /// Takes what changed since the last call. `None` if no lane was adopted since, and no decision changed.
    pub(super) fn take_dirty(&mut self) -> Option<Dirty> {
        let publishes = mem::take(&mut self.publishes);
        let has_new_rollbacks = mem::take(&mut self.has_new_rollbacks);
        (publishes > 0 || has_new_rollbacks).then(|| Dirty {
            entries: mem::take(&mut self.dirty),
            returned: mem::take(&mut self.returned),
            publishes,
        })
    }

    /// Calls `see` for the entries of a lane that is new as a whole. Those that are rolled back are dirty instead.
    pub(super) fn take_new(&mut self, mut see: impl FnMut(&Segment, &Entry, &mut Held)) {
        for (name, lane) in &mut self.lanes {
            for (entry, held) in lane.take_new() {
                if !self.rolled_back.contains_key(entry) {
                    see(name, entry, held);
                }
            }
        }
    }

    /// Returns what is served in place of an entry that is rolled back; the inner `None` is nothing.
    pub(super) fn rolled_back(&self, entry: &Entry) -> Option<&Option<Good>> {
        self.rolled_back.get(entry)
    }

    /// Follows the decisions that apply to what is published.
    pub(super) fn follow_decisions(&mut self, reports: &Reports) {
        let mut rolled_back = BTreeMap::new();
        for (lane, _, decision, _) in reports.decisions() {
            if let Ok(decision) = decision
                && self.applies(lane, decision)
            {
                rolled_back.extend(decision.parts.iter().map(|part| {
                    let good = part.good.clone().map(Good::Resource);
                    (Entry::Resource(part.place.clone()), good)
                }));
            }
        }
        let before = mem::replace(&mut self.rolled_back, rolled_back);
        for (entry, good) in &self.rolled_back {
            // Also an entry that changes without being served: its new value is not.
            if before.get(entry) != Some(good) {
                self.has_new_rollbacks = true;
                self.returned.remove(entry);
                self.dirty.insert(entry.clone());
            }
        }
        for entry in before.into_keys() {
            if !self.rolled_back.contains_key(&entry) {
                self.has_new_rollbacks = true;
                self.returned.insert(entry.clone());
                self.dirty.insert(entry);
            }
        }
    }

    /// Returns whether a lane is served with the published version of each part of a decision.
    pub(super) fn applies(&self, lane: &Segment, decision: &Decision) -> bool {
        let lane = self.lanes.get(lane).filter(|_| self.is_loaded);
        lane.is_some_and(|lane| {
            let mut parts = decision.parts.iter();
            parts.all(|part| {
                let entry = Entry::Resource(part.place.clone());
                lane.served_version(&entry) == part.version
            })
        })
    }

    /// Adopts all lanes that may be served. `accept_restored`: also those that went back.
    pub(super) fn settle(&mut self, replicas: &Replicas, accept_restored: bool) -> Vec<Adopted> {
        let mut accepted = BTreeSet::new();
        let (mut blocked, is_loaded) = (false, self.is_loaded);
        for (name, lane) in &mut self.lanes {
            if !lane.is_vouched_for() {
                // A lane without a head has published nothing, unless it was served before.
                blocked |= lane.head.is_some() || lane.serving.is_some();
                lane.check_for_loss(name, replicas, is_loaded, accept_restored);
                continue;
            }
            if is_loaded && lane.has_served_publish() && !lane.has_changes() {
                // The last step of a large publish: all entries are in their places.
                lane.serving.clone_from(&lane.head);
                lane.obstacle = None;
                continue;
            }
            if lane.check_for_loss(name, replicas, is_loaded, accept_restored) {
                blocked = true;
                continue;
            }
            accepted.insert(name.clone());
        }
        let candidates = accepted.len();
        self.refuse_duplicates(&mut accepted);
        blocked |= accepted.len() < candidates;
        if !is_loaded && blocked {
            return Vec::new();
        }
        let mut adopted: Vec<_> = accepted
            .iter()
            .filter_map(|name| self.adopt(name))
            .collect();
        if !is_loaded && !adopted.is_empty() {
            self.is_loaded = true;
            self.compare_with_saved();
        }
        // A lane may have waited for an entry that an adopted one removed.
        if !adopted.is_empty() && adopted.len() < candidates {
            adopted.extend(self.settle(replicas, accept_restored));
        }
        adopted
    }

    fn adopt(&mut self, name: &Segment) -> Option<Adopted> {
        let is_alone = self.lanes.len() == 1 && self.saved.is_empty();
        let lane = self.lanes.get_mut(name)?;
        let from = lane.serving.clone();
        lane.obstacle = None;
        lane.adopt(&mut self.dirty, is_alone);
        self.publishes += 1;
        Some(Adopted {
            lane: name.clone(),
            from,
            to: lane.serving.clone()?,
        })
    }

    /// Removes lanes from `accepted` until no entry would be in two lanes. The one that serves an entry keeps it; of
    /// two new ones, the one that was created first.
    fn refuse_duplicates(&mut self, accepted: &mut BTreeSet<Segment>) {
        if self.lanes.len() < 2 {
            return;
        }
        loop {
            let mut refused = BTreeMap::new();
            for name in accepted.iter() {
                if let Some(obstacle) = self.duplicate(name, accepted) {
                    refused.insert(name.clone(), obstacle);
                }
            }
            if refused.is_empty() {
                return;
            }
            for (name, obstacle) in refused {
                accepted.remove(&name);
                self.lane(&name).obstacle = Some(obstacle);
            }
        }
    }

    /// Returns an entry that this lane would add although another one has it first.
    fn duplicate(&self, name: &Segment, accepted: &BTreeSet<Segment>) -> Option<Obstacle> {
        let lane = self.lanes.get(name)?;
        let known = match &lane.obstacle {
            Some(Obstacle::Duplicate { entry, .. }) => {
                lane.shows(entry).flatten().map(|at| (entry, at))
            }
            _ => None,
        };
        // The known duplicate first: a lane that waits for another one costs nothing.
        let mut added = known.into_iter().chain(lane.added());
        added.find_map(|(entry, created)| {
            let mut others = self.lanes.iter().filter(|(other, _)| *other != name);
            let (other, _) = others.find(|(other, lane)| {
                if accepted.contains(*other) {
                    match lane.shows(entry) {
                        // It serves the entry and keeps it.
                        Some(None) => true,
                        // Both are new, or it serves another version of the entry.
                        Some(Some(theirs)) => {
                            lane.serves(entry) || (theirs, *other) < (created, name)
                        }
                        None => false,
                    }
                } else {
                    lane.serves(entry)
                }
            })?;
            Some(Obstacle::Duplicate {
                entry: entry.clone(),
                other: other.clone(),
            })
        })
    }

    /// Makes the first update the difference from the state that an earlier process served.
    fn compare_with_saved(&mut self) {
        let mut saved = mem::take(&mut self.saved);
        if saved.is_empty() {
            return;
        }
        for lane in self.lanes.values_mut() {
            for entry in &self.dirty {
                if let Some(held) = lane.held(entry)
                    && let Some(good) = saved.remove(entry)
                {
                    held.set_before(good);
                }
            }
        }
        // The rest is not in the store any more.
        self.dirty.extend(saved.into_keys());
    }
}

impl Lane {
    /// Returns whether the store has an earlier publish than the one that is served. A lane that serves nothing yet
    /// compares with the replicas, because a backup that was restored has their publishes only in their statuses
    /// (G-27).
    fn check_for_loss(
        &mut self,
        name: &Segment,
        replicas: &Replicas,
        is_loaded: bool,
        accept_restored: bool,
    ) -> bool {
        let own = self.serving.as_ref().map(|head| (head.seq, None));
        let others = || {
            let (seq, replica) = replicas.greatest_seq(name)?;
            Some((seq, Some(replica.clone())))
        };
        let served = own.or_else(|| others().filter(|_| !is_loaded));
        let store = self.head.as_ref().map(|head| head.seq);
        let is_behind = |seq: u64| store.is_none_or(|store| store < seq);
        let lost = served.filter(|(seq, _)| is_behind(*seq) && !accept_restored);
        let is_lost = lost.is_some();
        if let Some((serving, replica)) = lost {
            self.obstacle = Some(Obstacle::WentBack {
                serving,
                store,
                replica,
            });
        } else if matches!(self.obstacle, Some(Obstacle::WentBack { .. })) {
            self.obstacle = None;
        }
        is_lost
    }
}
