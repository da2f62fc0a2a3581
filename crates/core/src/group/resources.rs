//! Resources of one group.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::NodeMatcher;
use crate::snapshot::{Resource, ResourceKey};

/// A group: the matcher of its nodes, and its resources.
///
/// The resources are a sorted list of pointers: ten thousand groups of a thousand resources take 80 MB. Maps with their own keys
/// took ten times that.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) matcher: Option<NodeMatcher>,
    /// Sorted by type and name.
    pub(super) resources: Vec<Arc<Resource>>,
}

impl Group {
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        self.find(key).ok().map(|at| &self.resources[at])
    }

    /// Applies changes: a new resource, or `None` for a removal. O(log n) for each replaced resource, and once O(n) for all added
    /// and removed ones together.
    pub(super) fn apply(&mut self, changes: BTreeMap<ResourceKey, Option<Arc<Resource>>>) {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (key, new) in changes {
            match (self.find(&key), new) {
                (Ok(at), Some(new)) => self.resources[at] = new,
                (Ok(at), None) => removed.push(at),
                (Err(_), Some(new)) => added.push(new),
                (Err(_), None) => {}
            }
        }
        if !removed.is_empty() {
            // Both lists are sorted by key.
            let (mut removed, mut at) = (removed.into_iter().peekable(), 0);
            self.resources.retain(|_| {
                at += 1;
                removed.next_if_eq(&(at - 1)).is_none()
            });
        }
        if !added.is_empty() {
            self.resources.reserve_exact(added.len());
            self.resources.append(&mut added);
            self.resources
                .sort_by(|a, b| (a.resource_type(), a.name()).cmp(&(b.resource_type(), b.name())));
        }
    }

    fn find(&self, (resource_type, name): &ResourceKey) -> Result<usize, usize> {
        self.resources.binary_search_by(|held| {
            (held.resource_type(), held.name()).cmp(&(resource_type, name))
        })
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    fn key(name: &str) -> ResourceKey {
        (ResourceType::CLUSTER, name.into())
    }

    fn change(name: &str, content: Option<u8>) -> (ResourceKey, Option<Arc<Resource>>) {
        let resource =
            content.map(|byte| Arc::new(Resource::new(ResourceType::CLUSTER, name, &[byte])));
        (key(name), resource)
    }

    #[test]
    fn changes_keep_the_list_sorted() {
        let mut group = Group::default();
        group.apply(
            [("c", 1), ("a", 1), ("b", 1)]
                .map(|(n, c)| change(n, Some(c)))
                .into(),
        );
        group.apply(
            [
                change("a", None),
                change("b", Some(2)),
                change("d", Some(1)),
                change("x", None),
            ]
            .into(),
        );
        let held = group.resources.iter();
        let held: Vec<_> = held.map(|r| (&**r.name(), r.value()[0])).collect();
        assert_eq!(held, [("b", 2), ("c", 1), ("d", 1)]);
        assert!(group.get(&key("d")).is_some() && group.get(&key("a")).is_none());
    }
}
