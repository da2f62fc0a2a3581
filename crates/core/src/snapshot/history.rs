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
