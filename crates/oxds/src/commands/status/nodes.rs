//! Clients by kind: from the status page of oxds, or summed up from CSDS.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::clients::{Client, Held, State};
use super::super::control_plane::{ControlPlane, refused};
use super::super::store::Store;
use crate::exit::Failure;

/// A client, as `docs/status-json.md` has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) cluster: String,
    /// `sotw`, `delta`, `fetch` or `rest`; empty where that is not known.
    pub(super) protocol: String,
    pub(super) peer: Option<String>,
    pub(super) kinds: Vec<NodeKind>,
}

/// What it has of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct NodeKind {
    pub(super) kind: String,
    pub(super) state: State,
    /// The version of the latest response.
    pub(super) sent: Option<String>,
    /// The version of the latest that it accepted.
    pub(super) acknowledged: Option<String>,
    /// For how long it has been in this state.
    pub(super) since_seconds: Option<f64>,
    pub(super) nack: Option<Nack>,
    pub(super) rejected: Vec<Rejected>,
    /// How much it is not told yet, so that nothing breaks.
    #[serde(default)]
    pub(super) held: usize,
    /// Some of that.
    #[serde(default)]
    pub(super) held_back: Vec<HeldBack>,
}

/// What it is not told yet, and what has to happen first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HeldBack {
    /// `update`, `removal` or `answer`.
    pub(super) change: String,
    pub(super) name: Option<String>,
    pub(super) waits_for: Option<WaitsFor>,
    pub(super) seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WaitsFor {
    pub(super) kind: String,
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Nack {
    pub(super) version: String,
    pub(super) reason: String,
    pub(super) seconds_ago: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rejected {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) reason: String,
    pub(super) seconds_ago: f64,
}

/// A change that clients refused, so that something else is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rollback {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) group: Option<String>,
    pub(super) version: String,
    pub(super) returned_to: String,
    pub(super) refused_by: Vec<String>,
    pub(super) reason: String,
    pub(super) seconds_ago: f64,
}

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) rollbacks: Vec<Rollback>,
    #[serde(default)]
    pub(super) store: Store,
}

/// All clients as they are now.
pub(super) async fn page(control_plane: &ControlPlane) -> Result<Page, Failure> {
    if let Some(page) = control_plane.status_page().await
        && let Ok(page) = serde_json::from_slice::<Page>(&page.body)
    {
        return Ok(page);
    }
    let clients = control_plane.client_status(true).await;
    let clients = clients.map_err(|status| refused(&status))?;
    let nodes = clients.into_iter().map(Client::from).map(Node::from);
    Ok(Page {
        nodes: nodes.collect(),
        rollbacks: Vec::new(),
        store: Store::default(),
    })
}

impl From<Client> for Node {
    fn from(client: Client) -> Self {
        let mut kinds: BTreeMap<String, Vec<Held>> = BTreeMap::new();
        for held in client.resources {
            kinds.entry(held.kind.clone()).or_default().push(held);
        }
        Self {
            id: client.node,
            cluster: client.cluster,
            kinds: kinds
                .into_iter()
                .map(|(kind, held)| NodeKind::sum(kind, held))
                .collect(),
            ..Self::default()
        }
    }
}

impl NodeKind {
    /// The worst of the resources' states.
    fn sum(kind: String, resources: Vec<Held>) -> Self {
        let state = resources.iter().map(|held| held.state).max();
        let rejected: Vec<_> = resources
            .into_iter()
            .filter_map(|held| {
                let refused = held.refused?;
                Some(Rejected {
                    name: held.name,
                    version: refused.version,
                    reason: refused.reason,
                    seconds_ago: refused.seconds_ago as f64,
                })
            })
            .collect();
        Self {
            kind,
            state: state.unwrap_or(State::NotSent),
            sent: None,
            acknowledged: None,
            since_seconds: rejected.iter().map(|rejected| rejected.seconds_ago).next(),
            nack: None,
            rejected,
            held: 0,
            held_back: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::clients::Refused;
    use super::*;

    #[test]
    fn a_type_is_as_bad_as_its_worst_resource() {
        let held = |name: &str, state, refused| Held {
            kind: "cds".into(),
            name: name.into(),
            state,
            acknowledged: String::new(),
            refused,
        };
        let refused = Refused {
            version: "v".into(),
            reason: "no".into(),
            seconds_ago: 3,
        };
        let node = Node::from(Client {
            node: "edge-1".into(),
            cluster: "edge".into(),
            resources: vec![
                held("a", State::Synced, None),
                held("b", State::Nacked, Some(refused)),
            ],
        });
        assert_eq!(node.kinds.len(), 1);
        assert_eq!(node.kinds[0].state, State::Nacked);
        assert_eq!(node.kinds[0].rejected[0].name, "b");
    }
}
