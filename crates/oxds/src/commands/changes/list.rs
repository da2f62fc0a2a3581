//! A list of changed resources and groups, without their content.

use oxds_core::preview::{Change, ChangeCounts, ChangeKind};
use oxds_types::ResourceType;

use crate::table::{Table, one_line};

/// A changed resource, or a group whose nodes change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeRow {
    pub(crate) kind: ChangeKind,
    pub(crate) group: Option<String>,
    /// `None` for the nodes of a group.
    pub(crate) resource_type: Option<ResourceType>,
    pub(crate) name: String,
}

impl From<&Change> for ChangeRow {
    fn from(change: &Change) -> Self {
        Self {
            kind: change.kind(),
            group: change.group.as_ref().map(ToString::to_string),
            resource_type: change.resource_type.clone(),
            name: change.name.to_string(),
        }
    }
}

impl ChangeRow {
    /// Returns the change as text, such as `changed cds blue (group edge)`.
    pub(crate) fn line(&self) -> String {
        let (kind, name) = (word(self.kind), &self.name);
        one_line(&match (&self.resource_type, &self.group) {
            (None, _) => format!("{kind} group {name}"),
            (Some(resource_type), None) => format!("{kind} {resource_type} {name}"),
            (Some(resource_type), Some(group)) => {
                format!("{kind} {resource_type} {name} (group {group})")
            }
        })
    }
}

/// Returns the word for a sort of change, in texts and in JSON.
pub(super) fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Changed => "changed",
        ChangeKind::Removed => "removed",
    }
}

/// Returns the sums: `1 added, 2 changed, 0 removed`.
pub(crate) fn totals(counts: ChangeCounts) -> String {
    let ChangeCounts {
        added,
        changed,
        removed,
    } = counts;
    format!("{added} added, {changed} changed, {removed} removed")
}

/// Returns a table of the numbers by type and group. Groups themselves have the type `group`.
pub(crate) fn table(
    counts: impl IntoIterator<Item = (Option<String>, Option<ResourceType>, ChangeCounts)>,
) -> String {
    let mut table = Table::new(["TYPE", "GROUP", "ADDED", "CHANGED", "REMOVED"]);
    for (group, resource_type, counts) in counts {
        let resource_type = resource_type.as_ref();
        table.row([
            resource_type.map_or_else(|| "group".to_owned(), ToString::to_string),
            group.unwrap_or_default(),
            counts.added.to_string(),
            counts.changed.to_string(),
            counts.removed.to_string(),
        ]);
    }
    table.text()
}
