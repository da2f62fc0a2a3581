//! Answers that are missing: resources that clients have not accepted.

use std::fmt;

use serde::Serialize;

use super::held::HeldUpdates;
use crate::commands::clients::{ClientResource, ClientStatus, SyncState};
#[cfg(feature = "etcd")]
use crate::commands::control_plane::ControlPlane;
use crate::table::one_line;

/// A resource that a client has not accepted yet.
pub(crate) struct Pending<'a> {
    node: &'a str,
    resource: &'a ClientResource,
}

/// A resource that a client has not accepted, with the reason if it is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MissingAnswer {
    pub(crate) node: String,
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: String,
    pub(crate) state: SyncState,
    /// Error message of the NACK, or what the update waits for.
    pub(crate) reason: Option<String>,
}

impl fmt::Display for MissingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, resource_type, name) = (&self.node, &self.resource_type, &self.name);
        let reason = self.reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let state = self.state.text();
        let line = one_line(&format!("{node} {resource_type} {name} {state}{reason}"));
        f.write_str(&line)
    }
}

/// Returns what the clients of a control plane have not accepted: one resource, or all.
#[cfg(feature = "etcd")]
pub(crate) async fn missing_answers(
    control_plane: &ControlPlane,
    name: Option<&str>,
) -> Result<Vec<MissingAnswer>, tonic::Status> {
    let clients = control_plane.client_status(true).await?.into_iter();
    let clients: Vec<_> = clients.map(ClientStatus::from).collect();
    let pending = pending_resources(&clients, name);
    let held = if pending.is_empty() {
        HeldUpdates::default()
    } else {
        HeldUpdates::fetch(control_plane).await
    };
    Ok(pending.iter().map(|one| one.answer(&held)).collect())
}

impl Pending<'_> {
    /// Returns the id of the client's node.
    pub(crate) fn node(&self) -> &str {
        self.node
    }

    /// Returns it with the reason: its NACK, or what an update waits for.
    pub(crate) fn answer(&self, held: &HeldUpdates) -> MissingAnswer {
        let (node, resource_type) = (self.node, &self.resource.resource_type);
        let nacked = self.resource.nacked.as_ref();
        let nacked = nacked.map(|nacked| nacked.reason.clone());
        MissingAnswer {
            node: node.to_owned(),
            resource_type: resource_type.clone(),
            name: self.resource.name.clone(),
            state: self.resource.state,
            reason: nacked.or_else(|| held.reason(node, resource_type)),
        }
    }
}

/// Returns the clients' resources that are not accepted yet.
pub(crate) fn pending_resources<'a>(
    clients: &'a [ClientStatus],
    name: Option<&str>,
) -> Vec<Pending<'a>> {
    let all = clients.iter().flat_map(|client| {
        let node = &*client.node;
        let resources = client.resources.iter();
        resources.map(move |resource| Pending { node, resource })
    });
    let is_pending = |pending: &Pending<'_>| match (pending.resource.state, name) {
        (_, Some(name)) if pending.resource.name != name => false,
        (SyncState::Synced, _) => false,
        // Nothing is served under the name, so with --all this client has everything.
        (SyncState::Missing, name) => name.is_some(),
        _ => true,
    };
    all.filter(is_pending).collect()
}
