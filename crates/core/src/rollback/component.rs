//! Sets of changes that belong together: of resources that refer to each other.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Part, RollbackKey};

/// Parts of one update, by key.
pub(super) type Parts = BTreeMap<RollbackKey, Part>;

/// Splits the parts of an update into sets that are connected by references, in their old or new content. The sets of
/// `joined` belong together, whatever they refer to.
pub(super) fn components(parts: Parts, joined: &[BTreeSet<RollbackKey>]) -> Vec<Parts> {
    let keys: Vec<RollbackKey> = parts.keys().cloned().collect();
    let mut sets = Sets::new(keys.len());
    let index = |key: &RollbackKey| keys.binary_search(key).ok();
    for together in joined {
        let mut members = together.iter().filter_map(index);
        if let Some(first) = members.next() {
            members.for_each(|other| sets.join(first, other));
        }
    }
    for (at, part) in parts.values().enumerate() {
        let contents = [&part.last_good, &part.stored].into_iter().flatten();
        for reference in contents.flat_map(|content| content.references()) {
            // Of all groups: a node may see the one in a group, and the other one for all nodes.
            let from = keys.partition_point(|key| {
                (&key.resource_type, &*key.name) < (&reference.resource_type, &*reference.name)
            });
            let referred = keys[from..].iter().take_while(|key| {
                key.resource_type == reference.resource_type && key.name == reference.name
            });
            let count = referred.count();
            (from..from + count).for_each(|other| sets.join(at, other));
        }
    }
    let mut components: BTreeMap<usize, Parts> = BTreeMap::new();
    for (at, (key, part)) in parts.into_iter().enumerate() {
        let component = components.entry(sets.root(at)).or_default();
        component.insert(key, part);
    }
    components.into_values().collect()
}

/// Disjoint sets of indexes.
struct Sets(Vec<usize>);

impl Sets {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            // Each step halves the path for the next search.
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }
}
