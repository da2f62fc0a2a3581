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
pub(in crate::admin) struct NodeStatus {
    pub(in crate::admin) id: String,
    pub(in crate::admin) cluster: String,
    pub(in crate::admin) user_agent: String,
    pub(in crate::admin) peer: Option<SocketAddr>,
    pub(in crate::admin) protocol: &'static str,
    pub(in crate::admin) connected_seconds: f64,
    pub(in crate::admin) in_sync: bool,
    pub(in crate::admin) groups: Vec<String>,
    /// The first ones, unknown ones included (V-53).
    pub(in crate::admin) client_features: Vec<String>,
    pub(in crate::admin) types: Vec<NodeType>,
}

#[derive(Serialize)]
pub(in crate::admin) struct NodeType {
    #[serde(rename = "type")]
    pub(in crate::admin) resource_type: String,
    pub(in crate::admin) state: &'static str,
    pub(in crate::admin) since_seconds: Option<f64>,
    /// The API version of the client's requests.
    pub(in crate::admin) api: &'static str,
    pub(in crate::admin) wildcard: bool,
    pub(in crate::admin) names: usize,
    pub(in crate::admin) sent: Option<String>,
    pub(in crate::admin) acked: Option<String>,
    pub(in crate::admin) waiting_seconds: Option<f64>,
    pub(in crate::admin) held_back_total: usize,
    pub(in crate::admin) held_back: Vec<HeldStatus>,
    pub(in crate::admin) acks: u64,
    pub(in crate::admin) nacks: u64,
    pub(in crate::admin) nack: Option<NackStatus>,
    pub(in crate::admin) nacked: Vec<NackedStatus>,
    pub(in crate::admin) isolating: Option<IsolatingStatus>,
    pub(in crate::admin) nacked_total: usize,
}

/// Client features of a node that a page has. The current clients have at most five.
const MAX_FEATURES: usize = 20;
/// NACKed resources of a type that a page has. All may have the same reason, of several kilobytes.
const MAX_NACKED: usize = 100;

/// A change that is not sent to the client yet (make-before-break).
#[derive(Serialize)]
pub(in crate::admin) struct HeldStatus {
    pub(in crate::admin) change: &'static str,
    pub(in crate::admin) name: Option<String>,
    pub(in crate::admin) waits_for: Option<WaitsForStatus>,
    pub(in crate::admin) seconds: f64,
}

#[derive(Serialize)]
pub(in crate::admin) struct WaitsForStatus {
    #[serde(rename = "type")]
    pub(in crate::admin) resource_type: String,
    pub(in crate::admin) name: Option<String>,
    /// Present if the resource is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::admin) missing: Option<bool>,
}

#[derive(Serialize)]
pub(in crate::admin) struct NackStatus {
    pub(in crate::admin) version: String,
    pub(in crate::admin) reason: String,
    pub(in crate::admin) seconds_ago: f64,
}

/// Suspects of a NACK that names no resource.
#[derive(Serialize)]
pub(in crate::admin) struct IsolatingStatus {
    pub(in crate::admin) suspects: usize,
    pub(in crate::admin) rounds: u32,
    pub(in crate::admin) names: Vec<String>,
}

#[derive(Serialize)]
pub(in crate::admin) struct NackedStatus {
    pub(in crate::admin) name: String,
    pub(in crate::admin) version: String,
    pub(in crate::admin) removal: bool,
    pub(in crate::admin) reason: String,
    pub(in crate::admin) seconds_ago: f64,
}

impl NodeStatus {
    pub(in crate::admin) fn of(
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
