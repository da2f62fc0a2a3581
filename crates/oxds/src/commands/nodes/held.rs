//! Changes that make-before-break holds back, as lines for people.

use super::report::{HeldBackChange, NodeStatus, WaitsFor, fetch};
use crate::commands::control_plane::ControlPlane;

/// Returns the change.
pub(crate) fn described(held_back: &HeldBackChange) -> String {
    match &held_back.name {
        Some(name) => format!("{} of {name}", held_back.change),
        None => held_back.change.clone(),
    }
}

/// Returns the resource that the change waits for.
pub(crate) fn waits_for(held_back: &HeldBackChange) -> String {
    let Some(WaitsFor {
        resource_type,
        name,
        missing,
    }) = &held_back.waits_for
    else {
        return "sent next".to_owned();
    };
    let name = name.as_ref().map(|name| format!(" {name}"));
    let missing = if *missing {
        ", which does not exist"
    } else {
        ""
    };
    format!(
        "waits for {resource_type}{}{missing}",
        name.unwrap_or_default()
    )
}

/// Updates that make-before-break holds back from clients.
#[derive(Debug, Default)]
pub(crate) struct HeldUpdates(Vec<NodeStatus>);

impl HeldUpdates {
    /// Fetches them; none if the control plane has no status page.
    pub(crate) async fn fetch(control_plane: &ControlPlane) -> Self {
        let report = fetch(control_plane).await;
        Self(report.map(|report| report.nodes).unwrap_or_default())
    }

    /// Returns why updates of this type are held back from a client. Updates of a type wait together.
    pub(crate) fn reason(&self, node: &str, resource_type: &str) -> Option<String> {
        let nodes = self.0.iter().filter(|one| one.id == node);
        let mut types = nodes.flat_map(|node| &node.types);
        let of_type = types.find(|one| one.resource_type == resource_type)?;
        let mut updates = of_type.held_back.iter();
        let update = updates.find(|change| change.change == "update")?;
        Some(format!("{} {}", described(update), waits_for(update)))
    }
}
