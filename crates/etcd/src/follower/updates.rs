//! Updates for the store: made of the entries that changed since the last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::FollowerUpdate;
use super::held::{Good, HandedOut, Held};
use super::lanes::Lanes;
use crate::entry::Entry;
use crate::names::Segment;
use oxds_core::group::{Definition, GroupUpdate};
use oxds_core::snapshot::ChangeSet;

/// Maker of updates. It knows the entries whose values cannot be used.
#[derive(Debug, Default)]
pub(super) struct Updates {
    invalid: BTreeMap<Entry, (Segment, String)>,
}

/// Changes by scope.
#[derive(Default)]
struct Changes {
    all: ChangeSet,
    groups: BTreeMap<Segment, GroupUpdate>,
}

impl Updates {
    /// Returns the change of the served state since the last call; `None` if no lane was adopted since, and no decision
    /// changed.
    ///
    /// A content that was replaced before is not in it (G-23).
    pub(super) fn next(
        &mut self,
        lanes: &mut Lanes,
        cluster: u64,
        revision: i64,
    ) -> Option<FollowerUpdate> {
        let dirty = lanes.take_dirty()?;
        let publishes = dirty.publishes;
        let mut changes = Changes::default();
        for entry in dirty.entries {
            self.invalid.remove(&entry);
            if let Some(instead) = lanes.rolled_back(&entry) {
                match instead {
                    Some(good) => changes.put(&entry, good.clone()),
                    None => changes.remove(&entry),
                }
                continue;
            }
            let Some((lane, held)) = lanes.held(&entry) else {
                changes.remove(&entry);
                continue;
            };
            let is_returned = dirty.returned.contains(&entry);
            self.add(&mut changes, lane, &entry, held, is_returned);
        }
        // After the dirty ones, which may be among them: their contents are handed out once.
        lanes.take_new(|lane, entry, held| self.add(&mut changes, lane, entry, held, false));
        for (_, lane) in lanes.iter_mut() {
            lane.delivered = lane.serving.as_ref().map_or(0, |head| head.seq);
        }
        let heads = lanes.iter();
        let heads = heads.filter_map(|(name, lane)| Some((name.clone(), lane.serving.clone()?)));
        Some(FollowerUpdate {
            changes: changes.all,
            groups: changes.groups.into_values().collect(),
            heads: heads.collect(),
            publishes,
            cluster,
            revision,
        })
    }

    /// Adds the content of an entry, if it is not the one that was handed out before. `is_returned`: another one was
    /// served instead.
    fn add(
        &mut self,
        changes: &mut Changes,
        lane: &Segment,
        entry: &Entry,
        held: &mut Held,
        is_returned: bool,
    ) {
        match held.hand_out() {
            HandedOut::Unchanged if is_returned => {
                if let Some(good) = held.good().cloned() {
                    changes.put(entry, good);
                }
            }
            HandedOut::Unchanged => {}
            HandedOut::Changed(good) => changes.put(entry, good),
            HandedOut::Invalid { reason, is_served } => {
                if !is_served {
                    changes.remove(entry);
                }
                self.invalid.insert(entry.clone(), (lane.clone(), reason));
            }
        }
    }

    /// Returns the entries whose values cannot be used, with lane and reason.
    pub(super) fn invalid(&self) -> impl ExactSizeIterator<Item = (&Entry, &Segment, &str)> {
        let invalid = self.invalid.iter();
        invalid.map(|(entry, (lane, reason))| (entry, lane, reason.as_str()))
    }
}

impl Changes {
    fn put(&mut self, entry: &Entry, good: Good) {
        match good {
            Good::Resource(resource) => self.scope(entry).upserts.push(resource),
            Good::Matcher(matcher) => self.define(
                entry,
                Definition::Set(Box::new(Arc::unwrap_or_clone(matcher))),
            ),
        }
    }

    fn remove(&mut self, entry: &Entry) {
        match entry {
            Entry::Resource(place) => self.scope(entry).removals.push(place.resource_key()),
            Entry::Matcher(_) => self.define(entry, Definition::Unset),
        }
    }

    fn define(&mut self, entry: &Entry, definition: Definition) {
        if let Some(group) = entry.group() {
            self.group(group).definition = definition;
        }
    }

    fn scope(&mut self, entry: &Entry) -> &mut ChangeSet {
        match entry.group() {
            None => &mut self.all,
            Some(group) => &mut self.group(group).changes,
        }
    }

    fn group(&mut self, group: &Segment) -> &mut GroupUpdate {
        let new = || GroupUpdate {
            name: group.shared(),
            ..GroupUpdate::default()
        };
        self.groups.entry(group.clone()).or_insert_with(new)
    }
}
