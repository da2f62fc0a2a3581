//! Change set that replaces the resources of a snapshot by others.
//!
//! Both sides are sorted by name, so they are walked side by side, once.

use std::{collections::BTreeMap, iter::Peekable, sync::Arc};

use oxds_types::ResourceType;

use super::Snapshot;
use super::change::ChangeSet;
use super::resource::{Resource, ResourceKey};

impl ChangeSet {
    /// Returns the changes after which a snapshot has exactly these resources; of one type only, if a type is given.
    ///
    /// A resource that is equal to the one in the snapshot is not in the result. O(resources in the snapshot): each
    /// type is walked once, side by side with the new resources, as far as these come in the order of their names. An
    /// equal resource is dropped as soon as it is compared, so that the allocator reuses its memory for the next one.
    #[must_use]
    pub fn replacing(
        before: &Snapshot,
        resource_type: Option<&ResourceType>,
        resources: impl IntoIterator<Item = impl Into<Arc<Resource>>>,
    ) -> Self {
        let mut walks = TypeWalks::new(before, resource_type);
        resources.into_iter().for_each(|new| walks.pass(new.into()));
        walks.finish()
    }
}

/// One walk per type: new resources of different types may come in any order.
struct TypeWalks<'a> {
    before: &'a Snapshot,
    of_types: Vec<TypeWalk<'a>>,
    changes: ChangeSet,
    /// Resources that came after a greater name; of one name the latest.
    unordered: BTreeMap<ResourceKey, Arc<Resource>>,
}

struct TypeWalk<'a> {
    resource_type: &'a ResourceType,
    /// Resources of the snapshot after the last new name.
    old: Peekable<Box<dyn Iterator<Item = &'a Arc<Resource>> + 'a>>,
    /// The last new name.
    last: Option<Arc<str>>,
}

impl<'a> TypeWalks<'a> {
    /// Walks through all types, or through one.
    fn new(before: &'a Snapshot, resource_type: Option<&ResourceType>) -> Self {
        let resource_types = before.types();
        let resource_types = resource_types
            .filter(|(of, _)| resource_type.is_none_or(|resource_type| resource_type == *of));
        let of_types = resource_types.map(|(resource_type, published)| {
            let old: Box<dyn Iterator<Item = _>> = Box::new(published.collection().iter());
            TypeWalk {
                resource_type,
                old: old.peekable(),
                last: None,
            }
        });
        Self {
            before,
            of_types: of_types.collect(),
            changes: ChangeSet::default(),
            unordered: BTreeMap::new(),
        }
    }

    /// Handles a resource of the new state.
    fn pass(&mut self, new: Arc<Resource>) {
        let mut walks = self.of_types.iter_mut();
        let walk = walks.find(|walk| walk.resource_type == new.resource_type());
        match walk.filter(|walk| walk.is_ahead(&new)) {
            Some(walk) => walk.pass(new, &mut self.changes),
            None => {
                // Of two equal resources, the one that is already in memory is kept.
                let old = self.before.get(new.resource_type(), new.name());
                let new = old.filter(|old| **old == new).cloned().unwrap_or(new);
                self.unordered.insert(new.key(), new);
            }
        }
    }

    /// Removes the old resources that the new state does not have.
    fn finish(self) -> ChangeSet {
        let mut changes = self.changes;
        let removed = self.of_types.into_iter().flat_map(|walk| walk.old);
        changes.removals.extend(removed.map(|gone| gone.key()));
        if !self.unordered.is_empty() {
            let is_unordered = |key: &(ResourceType, Arc<str>)| self.unordered.contains_key(key);
            changes.upserts.retain(|new| !is_unordered(&new.key()));
            changes.removals.retain(|gone| !is_unordered(gone));
            let differs =
                |new: &Arc<Resource>| self.before.get(new.resource_type(), new.name()) != Some(new);
            changes
                .upserts
                .extend(self.unordered.into_values().filter(differs));
        }
        changes
    }
}

impl TypeWalk<'_> {
    /// Returns whether the name is greater than all before it.
    fn is_ahead(&self, new: &Resource) -> bool {
        self.last.as_ref().is_none_or(|last| **last < **new.name())
    }

    fn pass(&mut self, new: Arc<Resource>, changes: &mut ChangeSet) {
        let name = new.name();
        while let Some(gone) = self.old.next_if(|old| old.name() < name) {
            changes.removals.push(gone.key());
        }
        self.last = Some(Arc::clone(name));
        match self.old.next_if(|old| old.name() == name) {
            Some(same) if *same == new => {}
            _ => changes.upserts.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resource((resource_type, name, content): (bool, u8, u8)) -> Resource {
        let resource_type = if resource_type {
            ResourceType::CLUSTER
        } else {
            ResourceType::LISTENER
        };
        Resource::new(resource_type, format!("n{name}"), &[content])
    }

    fn texts(snapshot: &Snapshot) -> Vec<String> {
        let resource_types = snapshot.types();
        let all = resource_types.flat_map(|(_, published)| published.collection().iter());
        all.map(|resource| format!("{resource:?}")).collect()
    }

    proptest! {
        /// New resources may come in any order and repeatedly: the last one of each name wins, and unchanged resources
        /// are not in the change set.
        #[test]
        fn replacing_leads_to_exactly_the_new_resources(
            held in prop::collection::vec((any::<bool>(), 0..20u8, 0..3u8), 0..30),
            wanted in prop::collection::vec((any::<bool>(), 0..20u8, 0..3u8), 0..30),
            is_sorted in any::<bool>(),
        ) {
            let mut wanted = wanted;
            if is_sorted {
                wanted.sort_by_key(|(resource_type, name, _)| (!resource_type, format!("n{name}")));
            }
            let held = held.into_iter().map(resource);
            let before = Snapshot::unloaded().apply(held.collect()).0;
            let changes = ChangeSet::replacing(&before, None, wanted.iter().copied().map(resource));
            for new in &changes.upserts {
                prop_assert_ne!(before.get(new.resource_type(), new.name()), Some(new));
            }
            let expected: ChangeSet = wanted.into_iter().map(resource).collect();
            let expected = Snapshot::unloaded().apply(expected).0;
            prop_assert_eq!(texts(&before.apply(changes).0), texts(&expected));
        }
    }

    #[test]
    fn replacing_one_type_removes_nothing_of_other_types() {
        let held = [(true, 1, 1), (false, 1, 1), (false, 2, 1)].map(resource);
        let before = Snapshot::unloaded().apply(held.into_iter().collect()).0;
        let wanted = [(false, 1, 1), (true, 2, 1)].map(resource);
        let changes = ChangeSet::replacing(&before, Some(&ResourceType::CLUSTER), wanted);
        assert_eq!(changes.upserts, [Arc::new(resource((true, 2, 1)))]);
        assert_eq!(changes.removals, [(ResourceType::CLUSTER, "n1".into())]);
    }
}
