//! Earlier states of one type, by version.
//!
//! A SotW client that reconnects reports one version for everything that it has. If the state of that version is still
//! known, only its changes are news, and removals can wait for their users (S-52).

use std::sync::Arc;

use super::{resource_set::ResourceSet, settings::Settings};

/// Earlier states, oldest first, trimmed at their old end.
///
/// States share what did not change between them, so the cost is the resources that were replaced.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// Each with the number of names that the change after it concerned.
    states: Vec<(Arc<ResourceSet>, usize)>,
}

/// Earlier states of a node group. There may be as many groups as clients.
const STATES_OF_GROUP: usize = 2;

impl History {
    /// Returns the history with one more state, which is replaced by a change of this many names.
    pub(super) fn push(&self, before: &Arc<ResourceSet>, changed: usize, of: &Settings) -> Self {
        let limits = &of.limits;
        let most = if of.is_shared {
            limits.history
        } else {
            STATES_OF_GROUP
        };
        let mut replaced = 0;
        let newest_first = [(before, changed)];
        let known = self
            .states
            .iter()
            .rev()
            .map(|(state, count)| (state, *count));
        let kept = newest_first.into_iter().chain(known).take(most);
        let kept = kept.take_while(|(_, count)| {
            replaced += count;
            replaced <= limits.history_names
        });
        let mut states: Vec<_> = kept
            .map(|(state, count)| (Arc::clone(state), count))
            .collect();
        states.reverse();
        Self { states }
    }

    /// Returns the latest state of this version.
    pub(super) fn at_version(&self, version: &str) -> Option<&Arc<ResourceSet>> {
        let mut newest_first = self.states.iter().rev().map(|(state, _)| state);
        newest_first.find(|state| state.version() == *version)
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use crate::snapshot::{ChangeSet, Limits, Resource, Snapshot};

    const CDS: ResourceType = ResourceType::CLUSTER;

    /// Returns which of the states after each of these changes are known at the end. A change replaces so many
    /// resources.
    fn known(limits: Limits, changes: &[usize]) -> Vec<bool> {
        let mut snapshot = Snapshot::with_limits(limits);
        let mut versions = Vec::new();
        for (round, count) in changes.iter().enumerate() {
            let resources = (0..*count).map(|n| {
                let content = format!("{n} {round}");
                Resource::new(CDS, format!("{n}"), content.as_bytes())
            });
            let changes = resources.fold(ChangeSet::default(), ChangeSet::put);
            snapshot = snapshot.apply(changes).0;
            versions.push(snapshot.of_type(&CDS).collection().version());
        }
        let last = snapshot.of_type(&CDS);
        let is_known = |version: oxds_types::Version| last.at_version(version.as_str()).is_some();
        versions.into_iter().map(is_known).collect()
    }

    #[test]
    fn history_is_bounded_by_states_and_by_replaced_resources() {
        let limits = Limits {
            history: 2,
            history_names: 5,
            ..Limits::default()
        };
        assert_eq!(known(limits, &[1, 1, 1, 1]), [false, true, true, false]);
        assert_eq!(known(limits, &[1, 4, 2]), [false, true, false]);
        assert_eq!(known(limits, &[1, 6]), [false, false]);
    }
}
