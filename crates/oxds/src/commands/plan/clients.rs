//! The connected clients of a control plane, and which of them a change is for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use oxds_core::preview::Change;

use crate::commands::clients::ClientStatus;
use crate::commands::control_plane::ControlPlane;
use crate::commands::nodes::report::{NodeStatus, StatusReport};

/// Largest number of names of all clients that are fetched. Each takes about 200 bytes of the response.
const MAX_NAMES: usize = 1_000_000;

/// The clients of a control plane.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Number of clients.
    pub(super) connected: usize,
    /// Clients that subscribe to all resources of a type.
    wildcards: BTreeMap<String, BTreeSet<String>>,
    /// Other clients that subscribe to a resource, by type and name.
    by_name: HashMap<(String, String), BTreeSet<String>>,
    /// Whether the names of clients are unknown, because there are too many or the control plane does not list them.
    pub(super) lacks_names: bool,
}

impl Clients {
    /// Reads the subscriptions: wildcards from the status page, names by CSDS.
    pub(super) async fn fetch(control_plane: &ControlPlane, report: &StatusReport) -> Self {
        let mut clients = Self {
            connected: report.nodes.len(),
            ..Self::default()
        };
        for node in &report.nodes {
            clients.add_wildcards(node);
        }
        if report.nodes.is_empty() {
            return clients;
        }
        let listed = if names(report) <= MAX_NAMES {
            control_plane.client_status(true).await.ok()
        } else {
            None
        };
        clients.lacks_names = listed.is_none();
        for client in listed.into_iter().flatten().map(ClientStatus::from) {
            clients.add_names(client);
        }
        clients
    }

    fn add_wildcards(&mut self, node: &NodeStatus) {
        for of_type in node.types.iter().filter(|of_type| of_type.wildcard) {
            let of_type = self.wildcards.entry(of_type.resource_type.clone());
            of_type.or_default().insert(node.id.clone());
        }
    }

    fn add_names(&mut self, client: ClientStatus) {
        for resource in client.resources {
            let wildcards = self.wildcards.get(&resource.resource_type);
            if wildcards.is_some_and(|ids| ids.contains(&client.node)) {
                continue;
            }
            let key = (resource.resource_type, resource.name);
            let ids = self.by_name.entry(key).or_default();
            ids.insert(client.node.clone());
        }
    }

    /// Returns how many node ids have the resource of a change, or will get it; `None` if that is unknown.
    pub(super) fn of(&self, change: &Change) -> Option<usize> {
        let resource_type = change.resource_type.as_ref()?.to_string();
        let wildcards = self.wildcards.get(&resource_type).map_or(0, BTreeSet::len);
        let by_name = self.by_name.get(&(resource_type, change.name.to_string()));
        (!self.lacks_names).then(|| wildcards + by_name.map_or(0, BTreeSet::len))
    }

    /// Returns how many node ids at least one of the changes is for.
    pub(super) fn of_all<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> usize {
        let mut ids: BTreeSet<&String> = BTreeSet::new();
        for change in changes {
            let Some(resource_type) = &change.resource_type else {
                continue;
            };
            let resource_type = resource_type.to_string();
            ids.extend(self.wildcards.get(&resource_type).into_iter().flatten());
            let key = (resource_type, change.name.to_string());
            ids.extend(self.by_name.get(&key).into_iter().flatten());
        }
        ids.len()
    }
}

/// Returns the number of names that CSDS would list.
fn names(report: &StatusReport) -> usize {
    let types = report.snapshot.types.iter();
    let served: usize = types.map(|of_type| of_type.resources).sum();
    let of_node = |node: &NodeStatus| {
        let types = node.types.iter();
        let of_type = types.map(|of_type| {
            if of_type.wildcard {
                served
            } else {
                of_type.names
            }
        });
        of_type.sum::<usize>()
    };
    report.nodes.iter().map(of_node).sum()
}
