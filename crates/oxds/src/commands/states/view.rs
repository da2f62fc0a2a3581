//! The part of a folder that a node sees.

use std::sync::Arc;

use oxds_core::group::{GroupUpdate, Groups};
use oxds_core::preview::State;
use oxds_core::snapshot::ChangeSet;
use oxds_types::discovery::Node;

/// Returns what a node would see of a folder, and the groups that it is in.
pub(crate) fn seen_by(folder: &State, node: &Node) -> (State, Vec<String>) {
    let mut groups = Groups::default();
    let updates = folder.groups.iter().filter_map(|(name, group)| {
        let matcher = group.matcher.clone()?;
        let changes: ChangeSet = group.resources.values().map(Arc::clone).collect();
        Some(GroupUpdate::new(Arc::clone(name), matcher, changes))
    });
    groups.update(updates.collect());
    let members = groups.of(node);
    let mut view = State {
        of_all_nodes: folder.of_all_nodes.clone(),
        ..State::default()
    };
    // The most specific group comes last, so that its resources win.
    for resource in groups.overlay(&members).upserts {
        view.put(None, resource);
    }
    (view, members.iter().map(ToString::to_string).collect())
}
