//! The status of one client: its node, and its state for each resource type.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::session::{HeldBack, Nack, NackedResource, TypeStatus};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ApiVersion;
use oxds_types::identity::user_agent;
use serde::Serialize;

use crate::cache::Cache;
use crate::clients::Client;

#[derive(Serialize)]
pub(crate) struct NodeStatus {
    pub(crate) id: String,
    pub(crate) cluster: String,
    pub(crate) user_agent: String,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) protocol: &'static str,
    pub(crate) connected_seconds: f64,
    pub(crate) in_sync: bool,
    pub(crate) groups: Vec<String>,
    /// The first ones, unknown ones included (V-53).
    pub(crate) client_features: Vec<String>,
    pub(crate) types: Vec<NodeType>,
}

#[derive(Serialize)]
pub(crate) struct NodeType {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) state: &'static str,
    pub(crate) since_seconds: Option<f64>,
    /// The API version of the client's requests.
    pub(crate) api: &'static str,
    pub(crate) wildcard: bool,
    pub(crate) names: usize,
    pub(crate) sent: Option<String>,
    pub(crate) acked: Option<String>,
    pub(crate) waiting_seconds: Option<f64>,
    pub(crate) held_back_total: usize,
    pub(crate) held_back: Vec<HeldStatus>,
    pub(crate) acks: u64,
    pub(crate) nacks: u64,
    pub(crate) nack: Option<NackStatus>,
    pub(crate) nacked: Vec<NackedStatus>,
    pub(crate) isolating: Option<IsolatingStatus>,
    pub(crate) nacked_total: usize,
}

/// Client features of a node that a page has. The current clients have at most five.
const MAX_FEATURES: usize = 20;
/// NACKed resources of a type that a page has. All may have the same reason, of several kilobytes.
const MAX_NACKED: usize = 100;

/// A change that is not sent to the client yet (make-before-break).
#[derive(Serialize)]
pub(crate) struct HeldStatus {
    pub(crate) change: &'static str,
    pub(crate) name: Option<String>,
    pub(crate) waits_for: Option<WaitsForStatus>,
    pub(crate) seconds: f64,
}

#[derive(Serialize)]
pub(crate) struct WaitsForStatus {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: Option<String>,
    /// Present if the resource is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct NackStatus {
    pub(crate) version: String,
    pub(crate) reason: String,
    pub(crate) seconds_ago: f64,
}

/// Suspects of a NACK that names no resource.
#[derive(Serialize)]
pub(crate) struct IsolatingStatus {
    pub(crate) suspects: usize,
    pub(crate) rounds: u32,
    pub(crate) names: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct NackedStatus {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) removal: bool,
    pub(crate) reason: String,
    pub(crate) seconds_ago: f64,
}

impl NodeStatus {
    pub(crate) fn of(
        client: &Client<'_>,
        snapshot: &Snapshot,
        cache: &Cache,
        now: Instant,
    ) -> Self {
        let node = client.node;
        let groups = node.map(|node| cache.groups_of(node)).unwrap_or_default();
        let types: Vec<_> = client
            .resource_types()
            .iter()
            .map(|status| node_type(client, status, snapshot, now))
            .collect();
        Self {
            id: node.map(|node| node.id.clone()).unwrap_or_default(),
            cluster: node.map(|node| node.cluster.clone()).unwrap_or_default(),
            user_agent: node.map(user_agent).unwrap_or_default(),
            client_features: node
                .iter()
                .flat_map(|node| &node.client_features)
                .take(MAX_FEATURES)
                .cloned()
                .collect(),
            peer: client.peer,
            protocol: client.protocol,
            connected_seconds: seconds(now - client.since),
            in_sync: client.is_in_sync(snapshot),
            groups: groups.iter().map(ToString::to_string).collect(),
            types,
        }
    }
}

impl NodeStatus {
    /// Returns about as many bytes as the page has of the client.
    pub(super) fn bytes(&self) -> usize {
        const FIELDS: usize = 400;
        let of_type = |of_type: &NodeType| {
            let nacked = of_type.nacked.iter();
            let nacked = nacked.map(|one| FIELDS + one.name.len() + one.reason.len());
            let nack = of_type.nack.as_ref().map_or(0, |nack| nack.reason.len());
            FIELDS * (1 + of_type.held_back.len()) + nack + nacked.sum::<usize>()
        };
        let types: usize = self.types.iter().map(of_type).sum();
        let features: usize = self.client_features.iter().map(String::len).sum();
        FIELDS + self.id.len() + self.cluster.len() + self.user_agent.len() + features + types
    }
}

fn node_type(
    client: &Client<'_>,
    status: &TypeStatus,
    snapshot: &Snapshot,
    now: Instant,
) -> NodeType {
    let progress = client.progress(&status.resource_type, snapshot);
    let all_nacked = client.nacked_resources(&status.resource_type);
    let nacked = all_nacked
        .iter()
        .take(MAX_NACKED)
        .map(|(name, one)| nacked_status(name, one, now))
        .collect();
    let suspects = client.suspects(&status.resource_type);
    let held_back = client.held_back(&status.resource_type, snapshot);
    let held_back = held_back.iter().map(|held| held_status(held, now));
    NodeType {
        resource_type: status.resource_type.to_string(),
        state: progress.as_str(),
        since_seconds: status.since(progress).map(|since| seconds(now - since)),
        api: match status.api {
            ApiVersion::V2 => "v2",
            ApiVersion::V3 => "v3",
        },
        wildcard: status.wildcard,
        names: status.names,
        sent: status.sent.map(|version| version.to_string()),
        acked: status.acked.map(|version| version.to_string()),
        waiting_seconds: status.waiting_since.map(|since| seconds(now - since)),
        held_back_total: status.held,
        held_back: held_back.collect(),
        acks: status.acks,
        nacks: status.nacks,
        nack: status.nack.as_ref().map(|nack| nack_status(nack, now)),
        nacked,
        isolating: status.isolating.map(|isolating| IsolatingStatus {
            suspects: isolating.suspects,
            rounds: isolating.rounds,
            names: suspects.iter().map(ToString::to_string).collect(),
        }),
        nacked_total: all_nacked.len(),
    }
}

fn held_status(held: &HeldBack, now: Instant) -> HeldStatus {
    let waits_for = held.waits_for.as_ref();
    HeldStatus {
        change: held.change.as_str(),
        name: held.name.as_ref().map(ToString::to_string),
        waits_for: waits_for.map(|waits_for| WaitsForStatus {
            resource_type: waits_for.resource_type.to_string(),
            name: waits_for.name.as_ref().map(ToString::to_string),
            missing: waits_for.missing.then_some(true),
        }),
        seconds: seconds(now - held.since),
    }
}

fn nack_status(nack: &Nack, now: Instant) -> NackStatus {
    NackStatus {
        version: nack.version.to_string(),
        reason: nack.reason.to_string(),
        seconds_ago: seconds(now - nack.at),
    }
}

fn nacked_status(name: &Arc<str>, nacked: &NackedResource, now: Instant) -> NackedStatus {
    NackedStatus {
        name: name.to_string(),
        version: nacked.version.to_string(),
        removal: nacked.removal,
        reason: nacked.reason.to_string(),
        seconds_ago: seconds(now - nacked.at),
    }
}

pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
