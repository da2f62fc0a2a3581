//! The report of `oxds status`: read from the status page of oxds, or summed up from CSDS.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::commands::clients::{ClientResource, ClientStatus, SyncState};
use crate::commands::control_plane::{ControlPlane, rpc_failed};
use crate::commands::store_status::StoreStatus;
use crate::exit::Failure;
use crate::table::{ago, one_line};

/// A client, as in `docs/status-json.md`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    pub(crate) id: String,
    pub(crate) cluster: String,
    /// `sotw`, `delta`, `fetch` or `rest`; empty if unknown.
    pub(crate) protocol: String,
    pub(crate) peer: Option<String>,
    /// Groups of the node, the most specific first.
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    pub(crate) types: Vec<NodeType>,
}

/// State of a client for one resource type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeType {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) state: SyncState,
    /// Major of the API that the client uses, `v2` or `v3`; empty if unknown.
    #[serde(default)]
    pub(crate) api: String,
    /// Whether the client subscribes to all resources of the type.
    #[serde(default)]
    pub(crate) wildcard: bool,
    /// Number of names that it subscribes to.
    #[serde(default)]
    pub(crate) names: usize,
    /// Version of the latest response.
    pub(crate) sent: Option<String>,
    /// Version of the latest ACKed response.
    pub(crate) acked: Option<String>,
    /// Seconds since the last change of state.
    pub(crate) since_seconds: Option<f64>,
    pub(crate) nack: Option<NackedResponse>,
    pub(crate) nacked: Vec<NackedResource>,
    /// Number of changes that make-before-break holds back.
    #[serde(default)]
    pub(crate) held_back_total: usize,
    /// The first of these changes.
    #[serde(default)]
    pub(crate) held_back: Vec<HeldBackChange>,
}

/// A change that is not sent yet, and the resource that it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HeldBackChange {
    /// `update`, `removal` or `answer`.
    pub(crate) change: String,
    pub(crate) name: Option<String>,
    pub(crate) waits_for: Option<WaitsFor>,
    /// Seconds since the change was held back.
    pub(crate) seconds: f64,
}

/// The resource, or the type if `name` is `None`, that a change waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WaitsFor {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: Option<String>,
    /// Whether the resource does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) missing: bool,
}

/// The latest NACK of a type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NackedResponse {
    pub(crate) version: String,
    pub(crate) reason: String,
    pub(crate) seconds_ago: f64,
}

/// A resource that the client NACKed by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NackedResource {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) reason: String,
    pub(crate) seconds_ago: f64,
}

/// A change that was rolled back after NACKs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rollback {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) version: String,
    pub(crate) rolled_back_to: String,
    pub(crate) nacked_by: Vec<String>,
    /// Number of nodes that NACKed it; of several replicas, the ids are not known.
    #[serde(default)]
    pub(crate) nodes: u64,
    pub(crate) reason: String,
    /// The resource that was NACKed, if it is another one that was changed together with this one.
    #[serde(default)]
    pub(crate) nacked: Option<WaitsFor>,
    pub(crate) seconds_ago: f64,
}

/// A node that was connected within the last two minutes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AwayNode {
    pub(crate) id: String,
    pub(crate) seconds_ago: f64,
}

impl AwayNode {
    /// Returns the line about the node.
    pub(crate) fn line(&self) -> String {
        let (id, ago) = (one_line(&self.id), ago(self.seconds_ago));
        format!("{id} AWAY: it was connected {ago} ago")
    }
}

/// Fetches the ids of the connected nodes, and the nodes that have left.
#[cfg(feature = "etcd")]
pub(crate) async fn fetch_nodes(
    control_plane: &ControlPlane,
) -> Result<(Vec<String>, Vec<AwayNode>), Failure> {
    let report = fetch(control_plane).await?;
    let nodes = report.nodes.into_iter().map(|node| node.id);
    Ok((nodes.collect(), report.away))
}

/// The whole report, in the form of `/status.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusReport {
    pub(crate) nodes: Vec<NodeStatus>,
    #[serde(default, skip_serializing)]
    pub(crate) snapshot: Served,
    #[serde(default)]
    pub(crate) away: Vec<AwayNode>,
    #[serde(default)]
    pub(crate) rollbacks: Vec<Rollback>,
    #[serde(default)]
    pub(crate) store: StoreStatus,
    /// The place of the page in the list of clients.
    #[serde(default, skip_serializing)]
    pub(crate) page: Page,
}

/// The configuration that is served to nodes in no group.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Served {
    #[serde(default)]
    pub(crate) types: Vec<ServedType>,
}

/// The resources of a type.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct ServedType {
    pub(crate) type_url: String,
    pub(crate) resources: usize,
}

/// The place of a status page in the lists of clients and loads.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Page {
    /// Path of the next page.
    pub(crate) next: Option<String>,
}

/// Fetches the current state of all clients.
pub(crate) async fn fetch(control_plane: &ControlPlane) -> Result<StatusReport, Failure> {
    if let Some(page) = control_plane.status_page().await
        && let Ok(mut report) = serde_json::from_slice::<StatusReport>(&page.body)
    {
        while let Some(next) = report.page.next.take() {
            let page = control_plane.status_page_at(&next).await;
            let more =
                page.and_then(|page| serde_json::from_slice::<StatusReport>(&page.body).ok());
            let more = more.ok_or_else(|| {
                Failure::negative("the control plane ended while it listed its clients")
            })?;
            report.nodes.extend(more.nodes);
            report.page = more.page;
        }
        return Ok(report);
    }
    let clients = control_plane.client_status(true).await;
    let clients = clients.map_err(|status| rpc_failed(&status))?;
    let nodes = clients
        .into_iter()
        .map(ClientStatus::from)
        .map(NodeStatus::from);
    Ok(StatusReport {
        nodes: nodes.collect(),
        away: Vec::new(),
        rollbacks: Vec::new(),
        snapshot: Served::default(),
        store: StoreStatus::default(),
        page: Page::default(),
    })
}

impl From<ClientStatus> for NodeStatus {
    fn from(client: ClientStatus) -> Self {
        let mut types: BTreeMap<String, Vec<ClientResource>> = BTreeMap::new();
        for resource in client.resources {
            let of_type = types.entry(resource.resource_type.clone());
            of_type.or_default().push(resource);
        }
        Self {
            id: client.node,
            cluster: client.cluster,
            types: types
                .into_iter()
                .map(|(resource_type, resources)| NodeType::sum(resource_type, resources))
                .collect(),
            ..Self::default()
        }
    }
}

impl NodeType {
    /// Sums up the resources of a type: its state is the worst of theirs.
    fn sum(resource_type: String, resources: Vec<ClientResource>) -> Self {
        let state = resources.iter().map(|resource| resource.state).max();
        let names = resources.len();
        let nacked: Vec<_> = resources
            .into_iter()
            .filter_map(|resource| {
                let nacked = resource.nacked?;
                Some(NackedResource {
                    name: resource.name,
                    version: nacked.version,
                    reason: nacked.reason,
                    seconds_ago: nacked.seconds_ago as f64,
                })
            })
            .collect();
        Self {
            resource_type,
            state: state.unwrap_or(SyncState::NotSent),
            api: String::new(),
            wildcard: false,
            names,
            sent: None,
            acked: None,
            since_seconds: nacked.iter().map(|nacked| nacked.seconds_ago).next(),
            nack: None,
            nacked,
            held_back_total: 0,
            held_back: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::clients::NackedUpdate;

    #[test]
    fn type_state_is_its_worst_resource_state() {
        let resource = |name: &str, state, nacked| ClientResource {
            resource_type: "cds".into(),
            name: name.into(),
            state,
            nacked,
        };
        let nacked = NackedUpdate {
            version: "v".into(),
            reason: "no".into(),
            seconds_ago: 3,
        };
        let node = NodeStatus::from(ClientStatus {
            node: "edge-1".into(),
            cluster: "edge".into(),
            resources: vec![
                resource("a", SyncState::Synced, None),
                resource("b", SyncState::Nacked, Some(nacked)),
            ],
        });
        assert_eq!(node.types.len(), 1);
        assert_eq!(node.types[0].state, SyncState::Nacked);
        assert_eq!(node.types[0].nacked[0].name, "b");
    }
}
