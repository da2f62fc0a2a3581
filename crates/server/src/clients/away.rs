//! Nodes whose streams have ended a short time ago: the status shows those that have not come back (G-37).

use std::collections::HashMap;
use std::time::Duration;

use oxds_core::time::Instant;

/// Time for which a node is remembered. A client that lost its server is back after seconds.
const REMEMBERED: Duration = Duration::from_secs(120);
/// Upper bound of remembered nodes (S-60): a whole fleet that leaves at once. Those that leave beyond it are forgotten.
const MAX_NODES: usize = 10_000;

/// Node ids, with the times at which their last streams ended.
#[derive(Debug, Default)]
pub(super) struct AwayNodes {
    nodes: HashMap<String, Instant>,
    /// Time of the last search for old entries. A search costs O(nodes).
    swept: Option<Instant>,
}

impl AwayNodes {
    /// Notes the end of a stream of this node.
    pub(super) fn note(&mut self, node: &str, now: Instant) {
        let is_due = self.swept.is_none_or(|swept| swept + REMEMBERED <= now);
        if is_due {
            self.swept = Some(now);
            self.nodes.retain(|_, since| *since + REMEMBERED > now);
        }
        if node.is_empty() || self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(node) {
            return;
        }
        self.nodes.insert(node.to_owned(), now);
    }

    /// Returns the remembered nodes, with the times at which they left.
    pub(super) fn at(&self, now: Instant) -> impl Iterator<Item = (&str, Instant)> {
        let nodes = self.nodes.iter();
        let recent = nodes.filter(move |(_, since)| **since + REMEMBERED > now);
        recent.map(|(node, since)| (node.as_str(), *since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn g37_away_nodes_are_remembered_for_two_minutes() {
        let mut away = AwayNodes::default();
        away.note("", at(0));
        away.note("a", at(0));
        away.note("b", at(60));
        let seen = |away: &AwayNodes, now| {
            let mut seen: Vec<_> = away.at(at(now)).map(|(node, _)| node.to_owned()).collect();
            seen.sort_unstable();
            seen
        };
        assert_eq!(seen(&away, 119), ["a", "b"]);
        assert_eq!(seen(&away, 120), ["b"]);
        away.note("c", at(130));
        assert_eq!(away.nodes.len(), 2);
    }

    #[test]
    fn g37_away_nodes_are_bounded() {
        let mut away = AwayNodes::default();
        (0..2 * MAX_NODES).for_each(|node| away.note(&node.to_string(), at(0)));
        away.note("0", at(1));
        assert_eq!(away.nodes.len(), MAX_NODES);
        away.note("late", at(500));
        assert_eq!(away.nodes.len(), 1);
    }
}
