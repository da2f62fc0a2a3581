//! Nodes that NACKed a change: their number, and marks of some of them.
//!
//! A node that has moved NACKs on two replicas, and must count once. A mark is a hash of `node.id`: short, without the
//! id itself. A report has the smallest marks, so that two replicas with many nodes have the same ones of those that
//! they share.

use std::collections::BTreeSet;

use oxds_types::Version;
use serde::{Deserialize, Serialize};

/// Marks of a report: with them it stays below 1 KB. Further nodes count on each replica.
const MAX_MARKS: usize = 32;
/// Characters of a mark. Two of 100 nodes have the same one with a chance of 1 in 800,000.
const MARK: usize = 8;

/// Nodes that NACKed a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NackingNodes {
    /// Their number.
    #[serde(rename = "nodes")]
    count: u64,
    /// The smallest marks. A build before they existed writes none.
    #[serde(default)]
    marks: BTreeSet<String>,
}

impl NackingNodes {
    /// Makes it of node ids, each of which is there once.
    #[must_use]
    pub fn of<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut nodes = Self::default();
        for id in ids {
            nodes.count += 1;
            let version = Version::of(id.as_bytes()).to_string();
            nodes.marks.insert(version.chars().take(MARK).collect());
            if nodes.marks.len() > MAX_MARKS {
                nodes.marks.pop_last();
            }
        }
        nodes
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of distinct nodes of several replicas. Those without a mark count as distinct.
    #[must_use]
    pub fn distinct<'a>(all: impl IntoIterator<Item = &'a Self>) -> u64 {
        let (mut marks, mut others) = (BTreeSet::new(), 0_u64);
        for nodes in all {
            // Other programs may write reports with more marks than nodes.
            let known = nodes.marks.iter().take(MAX_MARKS);
            let known = known.take(usize::try_from(nodes.count).unwrap_or(usize::MAX));
            let before = others.saturating_add(nodes.count);
            others = before.saturating_sub(known.clone().count() as u64);
            marks.extend(known);
        }
        others.saturating_add(marks.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(range: std::ops::Range<usize>) -> NackingNodes {
        let ids: Vec<_> = range.map(|n| format!("node-{n}")).collect();
        NackingNodes::of(ids.iter().map(String::as_str))
    }

    /// given nodes on several replicas / then a node that is on two of them counts once.
    #[test]
    fn g38_node_on_two_replicas_counts_once() {
        for (all, expected) in [
            (vec![], 0),
            (vec![nodes(0..1), nodes(0..1)], 1),
            (vec![nodes(0..3), nodes(2..5), nodes(0..1)], 5),
            (vec![nodes(0..0), nodes(7..9)], 2),
        ] {
            assert_eq!(NackingNodes::distinct(&all), expected, "{all:?}");
        }
    }

    /// given more nodes than marks / then the size has a limit, equal marks still count once, and the rest counts on
    /// each replica.
    #[test]
    fn g38_marks_of_nodes_are_bounded() {
        let (many, same) = (nodes(0..1000), nodes(0..1000));
        assert_eq!((many.count(), many.marks.len()), (1000, MAX_MARKS));
        assert_eq!(NackingNodes::distinct([&many, &same]), 2000 - 32);
        assert!(serde_json::to_string(&many).unwrap().len() < 450);
        let old: NackingNodes = serde_json::from_str(r#"{"nodes":2}"#).unwrap();
        assert_eq!(NackingNodes::distinct([&old, &old]), 4);
        let hostile: NackingNodes =
            serde_json::from_str(r#"{"nodes":1,"marks":["a","b","c"]}"#).unwrap();
        assert_eq!(NackingNodes::distinct([&hostile]), 1);
        let huge = NackingNodes {
            count: u64::MAX,
            ..NackingNodes::default()
        };
        assert_eq!(NackingNodes::distinct([&huge, &huge]), u64::MAX);
    }
}
