//! Content of the lanes: each cluster's text names the publish that it is of, so a client's state is of one publish per
//! lane, or a mix.

use std::collections::BTreeSet;

use crate::subscriber::Clusters;

/// The lanes. Names of clusters begin with their lane, so that no name is in two of them.
pub(super) const LANES: [&str; 2] = ["main", "canary"];
/// Names per lane that publishes write again and again.
pub(super) const POOL: usize = 40;

/// A publish of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Number of the publish in the whole run.
    pub(super) number: usize,
    pub(super) lane: usize,
    /// Names that get the text of this publish, beside the stamp.
    pub(super) upserts: BTreeSet<String>,
    pub(super) removals: BTreeSet<String>,
}

impl Change {
    /// Text of all clusters that this publish writes.
    pub(super) fn text(&self) -> String {
        format!("{}#{}", LANES[self.lane], self.number)
    }

    /// Names that this publish writes: each has the stamp of its lane.
    pub(super) fn written(&self) -> impl Iterator<Item = String> {
        let upserts = self.upserts.iter().cloned();
        upserts.chain([stamp(self.lane)])
    }

    /// Returns the state of the lane after this publish.
    pub(super) fn apply(&self, state: &Clusters) -> Clusters {
        let mut state = state.clone();
        state.retain(|name, _| !self.removals.contains(name));
        let text = self.text();
        state.extend(self.written().map(|name| (name, text.clone())));
        state
    }
}

/// The cluster that each publish of a lane writes.
pub(super) fn stamp(lane: usize) -> String {
    format!("{}-stamp", LANES[lane])
}

/// A cluster that many publishes of a lane write.
pub(super) fn pooled(lane: usize, at: usize) -> String {
    format!("{}-p{at:02}", LANES[lane])
}

/// The cluster that only this publish writes, and that a later one of the same writer removes.
pub(super) fn single(lane: usize, number: usize) -> String {
    format!("{}-n{number}", LANES[lane])
}

/// Returns the publish that wrote a cluster with [`single`].
pub(super) fn single_of(lane: usize, name: &str) -> Option<usize> {
    let rest = name.strip_prefix(LANES[lane])?;
    rest.strip_prefix("-n")?.parse().ok()
}

/// Returns lane and number of a publish from the text of a cluster, or the note of a head.
pub(super) fn parse(text: &str) -> Option<(usize, usize)> {
    let (lane, number) = text.split_once('#')?;
    let lane = LANES.iter().position(|known| *known == lane)?;
    Some((lane, number.parse().ok()?))
}

/// Returns the clusters of a lane.
pub(super) fn part(state: &Clusters, lane: usize) -> Clusters {
    let of_lane = |name: &str| {
        let rest = name.strip_prefix(LANES[lane]);
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    let clusters = state.iter().filter(|(name, _)| of_lane(name));
    clusters
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect()
}
