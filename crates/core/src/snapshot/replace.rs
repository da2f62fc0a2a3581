//! What differs between what is held and what is handed over in its place.

use std::{collections::BTreeMap, iter::Peekable, sync::Arc};

use oxds_types::ResourceType;

use super::{ChangeSet, Resource, Snapshot};

/// What is held, gone through beside what is wanted: each kind for itself, as they may come in any order.
pub(super) struct Walks<'a> {
    before: &'a Snapshot,
    of_types: Vec<Walk<'a>>,
    changes: ChangeSet,
    /// What came behind its place; of one name the latest.
    late: BTreeMap<(ResourceType, Arc<str>), Arc<Resource>>,
}

struct Walk<'a> {
    resource_type: &'a ResourceType,
    /// What no wanted name has passed yet.
    held: Peekable<Box<dyn Iterator<Item = &'a Arc<Resource>> + 'a>>,
    /// The name that was wanted last.
    last: Option<Arc<str>>,
}

impl<'a> Walks<'a> {
    /// Through all that there is, or through one kind of it.
    pub(super) fn new(before: &'a Snapshot, resource_type: Option<&ResourceType>) -> Self {
        let resource_types = before.types();
        let resource_types = resource_types
            .filter(|(of, _)| resource_type.is_none_or(|resource_type| resource_type == *of));
        let of_types = resource_types.map(|(resource_type, published)| {
            let held: Box<dyn Iterator<Item = _>> = Box::new(published.collection().iter());
            Walk {
                resource_type,
                held: held.peekable(),
                last: None,
            }
        });
        Self {
            before,
            of_types: of_types.collect(),
            changes: ChangeSet::default(),
            late: BTreeMap::new(),
        }
    }

    /// This is wanted.
    pub(super) fn pass(&mut self, new: Arc<Resource>) {
        let mut walks = self.of_types.iter_mut();
        let walk = walks.find(|walk| walk.resource_type == new.resource_type());
        match walk.filter(|walk| walk.is_ahead(&new)) {
            Some(walk) => walk.pass(new, &mut self.changes),
            None => {
                // What is equal is kept in its one copy.
                let held = self.before.get(new.resource_type(), new.name());
                let new = held.filter(|held| **held == new).cloned().unwrap_or(new);
                self.late.insert(new.key(), new);
            }
        }
    }

    /// No more is wanted.
    pub(super) fn finish(self) -> ChangeSet {
        let mut changes = self.changes;
        let rest = self.of_types.into_iter().flat_map(|walk| walk.held);
        changes.removals.extend(rest.map(|gone| gone.key()));
        if !self.late.is_empty() {
            let is_late = |key: &(ResourceType, Arc<str>)| self.late.contains_key(key);
            changes.upserts.retain(|new| !is_late(&new.key()));
            changes.removals.retain(|gone| !is_late(gone));
            let differs =
                |new: &Arc<Resource>| self.before.get(new.resource_type(), new.name()) != Some(new);
            changes
                .upserts
                .extend(self.late.into_values().filter(differs));
        }
        changes
    }
}

impl Walk<'_> {
    /// Whether this comes after all that came.
    fn is_ahead(&self, new: &Resource) -> bool {
        self.last.as_ref().is_none_or(|last| **last < **new.name())
    }

    fn pass(&mut self, new: Arc<Resource>, changes: &mut ChangeSet) {
        let name = new.name();
        while let Some(gone) = self.held.next_if(|held| held.name() < name) {
            changes.removals.push(gone.key());
        }
        self.last = Some(Arc::clone(name));
        match self.held.next_if(|held| held.name() == name) {
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
        /// In whatever order they come, and how often: afterwards there is what came last of each name, and whatever
        /// was there already is not in the change.
        #[test]
        fn what_is_handed_over_is_what_there_is_then(
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
    fn what_is_of_another_type_than_the_one_to_replace_takes_nothing_away() {
        let held = [(true, 1, 1), (false, 1, 1), (false, 2, 1)].map(resource);
        let before = Snapshot::unloaded().apply(held.into_iter().collect()).0;
        let wanted = [(false, 1, 1), (true, 2, 1)].map(resource);
        let changes = ChangeSet::replacing(&before, Some(&ResourceType::CLUSTER), wanted);
        assert_eq!(changes.upserts, [Arc::new(resource((true, 2, 1)))]);
        assert_eq!(changes.removals, [(ResourceType::CLUSTER, "n1".into())]);
    }
}
