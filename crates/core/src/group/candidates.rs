//! Index of matchers: finds those that may match a node without a look at all others.

use std::collections::{BTreeSet, HashMap};

use oxds_types::discovery::Node;

use super::NodeMatcher;

/// Values with matchers, indexed by an exact id or cluster. A matcher without either is a candidate for every node.
#[derive(Debug)]
pub(super) struct Candidates<T> {
    by_id: HashMap<String, BTreeSet<T>>,
    by_cluster: HashMap<String, BTreeSet<T>>,
    others: BTreeSet<T>,
}

impl<T: Ord + Clone> Candidates<T> {
    pub(super) fn insert(&mut self, matcher: &NodeMatcher, value: T) {
        match matcher.exact() {
            Exact::Id(id) => self.by_id.entry(id.to_owned()).or_default().insert(value),
            Exact::Cluster(cluster) => {
                let of_cluster = self.by_cluster.entry(cluster.to_owned()).or_default();
                of_cluster.insert(value)
            }
            Exact::Nothing => self.others.insert(value),
        };
    }

    pub(super) fn remove(&mut self, matcher: &NodeMatcher, value: &T) {
        let (map, text) = match matcher.exact() {
            Exact::Id(id) => (&mut self.by_id, id),
            Exact::Cluster(cluster) => (&mut self.by_cluster, cluster),
            Exact::Nothing => {
                self.others.remove(value);
                return;
            }
        };
        if let Some(values) = map.get_mut(text) {
            values.remove(value);
            if values.is_empty() {
                map.remove(text);
            }
        }
    }

    /// Returns the values whose matcher may match this node.
    pub(super) fn of(&self, node: &Node) -> impl Iterator<Item = &T> {
        let by_id = self.by_id.get(&node.id).into_iter().flatten();
        let by_cluster = self.by_cluster.get(&node.cluster).into_iter().flatten();
        by_id.chain(by_cluster).chain(&self.others)
    }
}

impl<T> Default for Candidates<T> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_cluster: HashMap::new(),
            others: BTreeSet::new(),
        }
    }
}

/// Exact condition of a matcher, if it has one.
enum Exact<'a> {
    Id(&'a str),
    Cluster(&'a str),
    Nothing,
}

impl NodeMatcher {
    fn exact(&self) -> Exact<'_> {
        match (&self.id, &self.cluster) {
            (Some(id), _) if id.is_exact() => Exact::Id(id.as_str()),
            (_, Some(cluster)) if cluster.is_exact() => Exact::Cluster(cluster.as_str()),
            _ => Exact::Nothing,
        }
    }
}
