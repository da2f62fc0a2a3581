//! Resources of one group.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::{Fingerprint, Version};

use super::NodeMatcher;
use crate::snapshot::{Resource, ResourceKey};

/// A group: the matcher of its nodes, and its resources.
///
/// The resources are a sorted list of pointers: ten thousand groups of a thousand resources take 80 MB. Maps with their
/// own keys took ten times that.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) matcher: Option<NodeMatcher>,
    /// Sorted by type and name.
    pub(super) resources: Vec<Arc<Resource>>,
    fingerprint: Fingerprint,
}

impl Group {
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        self.find(key).ok().map(|at| &self.resources[at])
    }

    /// Applies changes: a new resource, or `None` for a removal. O(log n) for each replaced resource, and once O(n) for
    /// all added and removed ones together.
    pub(super) fn apply(&mut self, changes: BTreeMap<ResourceKey, Option<Arc<Resource>>>) {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (key, new) in changes {
            let found = self.find(&key);
            let old = found.ok().map(|at| Arc::clone(&self.resources[at]));
            self.count(old.as_ref(), new.as_ref());
            match (found, new) {
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

    /// Returns a hash of the matcher and of all resources, which does not depend on the history.
    pub(super) fn version(&self) -> Version {
        let mut fingerprint = self.fingerprint;
        if let Some(matcher) = &self.matcher {
            fingerprint.add("", &matcher.version());
        }
        fingerprint.version()
    }

    fn count(&mut self, old: Option<&Arc<Resource>>, new: Option<&Arc<Resource>>) {
        let name = |of: &Resource| format!("{}/{}", of.resource_type().type_url(), of.name());
        if let Some(old) = old {
            self.fingerprint.remove(&name(old), &old.version());
        }
        if let Some(new) = new {
            self.fingerprint.add(&name(new), &new.version());
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

    /// Given two groups that came to the same resources in different ways, then their versions are equal, and differ
    /// from that of another content, name or matcher.
    #[test]
    fn s29_version_of_a_group_depends_on_its_content() {
        let group = |changes: &[(&str, Option<u8>)]| {
            let mut group = Group::default();
            for (name, content) in changes {
                group.apply([change(name, *content)].into());
            }
            group
        };
        let plain = group(&[("a", Some(1)), ("b", Some(2))]);
        let other_way = [("b", Some(7)), ("x", Some(1)), ("a", Some(1)), ("x", None)];
        let mut same = group(&[&other_way[..], &[("b", Some(2))]].concat());
        assert_eq!(same.version(), plain.version());
        for other in [
            group(&[("a", Some(1)), ("b", Some(3))]),
            group(&[("a", Some(1)), ("c", Some(2))]),
            group(&[("a", Some(1))]),
        ] {
            assert_ne!(other.version(), plain.version());
        }
        same.matcher = Some(NodeMatcher::default());
        assert_ne!(same.version(), plain.version());
    }
}
