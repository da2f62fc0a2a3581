//! `/status.json`: everything that is known, in a shape that stays. Described in `docs/status-json.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::rollback::Withdrawn;
use oxds_core::session::{KindStatus, Nack, Rejection};
use oxds_core::snapshot::{Obstacles, Snapshot};
use oxds_core::time::Instant;
use oxds_types::ApiVersion;
use oxds_types::discovery::Node;
use serde::Serialize;

use super::Pages;
use crate::cache::Cache;
use crate::clients::{self, About, Subscriber};
use crate::load::ClusterLoad;
use crate::store::Finding;
use crate::withheld::reasons;

#[derive(Serialize)]
pub(super) struct Status {
    server: ServerStatus,
    snapshot: SnapshotStatus,
    groups: Vec<GroupStatus>,
    store: StoreStatus,
    rollbacks: Vec<RollbackStatus>,
    nodes: Vec<NodeStatus>,
    loads: Vec<ClusterLoad>,
}

#[derive(Serialize)]
struct ServerStatus {
    version: &'static str,
    identifier: Option<String>,
    uptime_seconds: f64,
}

#[derive(Serialize)]
struct SnapshotStatus {
    loaded: bool,
    revision: u64,
    kinds: Vec<SnapshotKind>,
}

#[derive(Serialize)]
struct SnapshotKind {
    kind: String,
    type_url: String,
    version: String,
    resources: usize,
    withheld: Vec<Unsaid>,
}

/// A resource that clients of API v2 do not get.
#[derive(Serialize)]
struct Unsaid {
    name: String,
    reasons: Vec<String>,
}

impl From<(&Arc<str>, &Obstacles)> for Unsaid {
    fn from((name, obstacles): (&Arc<str>, &Obstacles)) -> Self {
        Self {
            name: name.to_string(),
            reasons: reasons(obstacles).collect(),
        }
    }
}

#[derive(Serialize)]
struct GroupStatus {
    name: String,
    resources: usize,
}

#[derive(Serialize)]
struct StoreStatus {
    updates: u64,
    ended: bool,
    load_seconds: f64,
    findings: Vec<StoreFinding>,
}

#[derive(Serialize)]
struct StoreFinding {
    severity: &'static str,
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    resource: Option<String>,
    path: String,
    rule: &'static str,
    message: String,
}

#[derive(Serialize)]
struct RollbackStatus {
    kind: String,
    name: String,
    group: Option<String>,
    version: String,
    returned_to: String,
    refused_by: Vec<String>,
    reason: String,
    seconds_ago: f64,
}

#[derive(Serialize)]
struct NodeStatus {
    id: String,
    cluster: String,
    user_agent: String,
    peer: Option<SocketAddr>,
    protocol: &'static str,
    connected_seconds: f64,
    in_sync: bool,
    groups: Vec<String>,
    kinds: Vec<NodeKind>,
}

#[derive(Serialize)]
struct NodeKind {
    kind: String,
    state: &'static str,
    since_seconds: Option<f64>,
    /// The version of the API in which the client asks.
    api: &'static str,
    wildcard: bool,
    names: usize,
    sent: Option<String>,
    acknowledged: Option<String>,
    waiting_seconds: Option<f64>,
    acks: u64,
    nacks: u64,
    nack: Option<NackStatus>,
    rejected: Vec<RejectedResource>,
}

#[derive(Serialize)]
struct NackStatus {
    version: String,
    reason: String,
    seconds_ago: f64,
}

#[derive(Serialize)]
struct RejectedResource {
    name: String,
    version: String,
    reason: String,
    seconds_ago: f64,
}

impl Status {
    pub(super) fn of(pages: &Pages) -> Self {
        let context = &pages.context;
        let now = context.clock.now();
        let snapshot = context.cache.snapshot();
        let mut nodes = Vec::new();
        clients::each(context, |about, client, served| {
            nodes.push(node(about, client, served, &context.cache, now));
        });
        Self {
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION"),
                identifier: context.config.identifier.clone(),
                uptime_seconds: now.since_epoch().as_secs_f64(),
            },
            groups: context
                .cache
                .groups()
                .into_iter()
                .map(|(name, resources)| GroupStatus {
                    name: name.to_string(),
                    resources,
                })
                .collect(),
            store: StoreStatus {
                updates: pages.health.updates(),
                ended: pages.health.has_ended(),
                load_seconds: pages.health.load_time().as_secs_f64(),
                findings: pages
                    .health
                    .findings()
                    .iter()
                    .map(StoreFinding::from)
                    .collect(),
            },
            rollbacks: context
                .on_nack
                .withdrawn()
                .iter()
                .map(|withdrawn| rollback(withdrawn, now))
                .collect(),
            nodes,
            loads: pages.load_reports.loads(),
            snapshot: SnapshotStatus::from(&*snapshot),
        }
    }
}

impl From<&Snapshot> for SnapshotStatus {
    fn from(snapshot: &Snapshot) -> Self {
        let kinds = snapshot.kinds().map(|(kind, published)| SnapshotKind {
            kind: kind.to_string(),
            type_url: kind.type_url().to_owned(),
            version: published.collection().version().to_string(),
            resources: published.collection().len(),
            withheld: published.withheld().map(Unsaid::from).collect(),
        });
        Self {
            loaded: snapshot.is_loaded(),
            revision: snapshot.revision().get(),
            kinds: kinds.collect(),
        }
    }
}

impl From<&Finding> for StoreFinding {
    fn from(finding: &Finding) -> Self {
        Self {
            severity: finding.severity.as_str(),
            file: finding.file.display().to_string(),
            line: finding.position.map(|position| position.line),
            column: finding.position.map(|position| position.column),
            resource: finding.resource.clone(),
            path: finding.path.clone(),
            rule: finding.rule,
            message: finding.message.clone(),
        }
    }
}

fn node(
    about: &About,
    client: &dyn Subscriber,
    snapshot: &Snapshot,
    cache: &Cache,
    now: Instant,
) -> NodeStatus {
    let node = client.node();
    let groups = node.map(|node| cache.groups_of(node)).unwrap_or_default();
    let kinds: Vec<_> = client
        .kinds()
        .iter()
        .map(|status| kind(client, status, snapshot, now))
        .collect();
    NodeStatus {
        id: node.map(|node| node.id.clone()).unwrap_or_default(),
        cluster: node.map(|node| node.cluster.clone()).unwrap_or_default(),
        user_agent: node.map(user_agent).unwrap_or_default(),
        peer: about.peer,
        protocol: about.protocol,
        connected_seconds: seconds(now - about.since),
        in_sync: client.is_in_sync(snapshot),
        groups: groups.iter().map(ToString::to_string).collect(),
        kinds,
    }
}

fn kind(
    client: &dyn Subscriber,
    status: &KindStatus,
    snapshot: &Snapshot,
    now: Instant,
) -> NodeKind {
    let progress = client.progress(&status.kind, snapshot);
    let rejections = client.rejections(&status.kind);
    let rejected = rejections
        .iter()
        .map(|(name, r)| rejected(name, r, now))
        .collect();
    NodeKind {
        kind: status.kind.to_string(),
        state: progress.as_str(),
        since_seconds: status.since(progress).map(|since| seconds(now - since)),
        api: match status.api {
            ApiVersion::V2 => "v2",
            ApiVersion::V3 => "v3",
        },
        wildcard: status.wildcard,
        names: status.names,
        sent: status.sent.map(|version| version.to_string()),
        acknowledged: status.acked.map(|version| version.to_string()),
        waiting_seconds: status.waiting_since.map(|since| seconds(now - since)),
        acks: status.acks,
        nacks: status.nacks,
        nack: status.nack.as_ref().map(|nack| nack_status(nack, now)),
        rejected,
    }
}

fn rollback(withdrawn: &Withdrawn, now: Instant) -> RollbackStatus {
    let place = &withdrawn.place;
    RollbackStatus {
        kind: place.kind.to_string(),
        name: place.name.to_string(),
        group: place.group.as_ref().map(ToString::to_string),
        version: withdrawn.offered.version().to_string(),
        returned_to: withdrawn.good.version().to_string(),
        refused_by: withdrawn
            .refused_by
            .iter()
            .map(ToString::to_string)
            .collect(),
        reason: withdrawn.reason.to_string(),
        seconds_ago: seconds(now - withdrawn.at),
    }
}

fn nack_status(nack: &Nack, now: Instant) -> NackStatus {
    NackStatus {
        version: nack.version.to_string(),
        reason: nack.reason.to_string(),
        seconds_ago: seconds(now - nack.at),
    }
}

fn rejected(name: &Arc<str>, rejection: &Rejection, now: Instant) -> RejectedResource {
    RejectedResource {
        name: name.to_string(),
        version: rejection.version.to_string(),
        reason: rejection.reason.to_string(),
        seconds_ago: seconds(now - rejection.at),
    }
}

/// As `envoy 1.40.0`, in whichever of its three ways the client says it.
fn user_agent(node: &Node) -> String {
    use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
    let version = match &node.user_agent_version_type {
        Some(UserAgentVersionType::UserAgentVersion(version)) => version.clone(),
        Some(UserAgentVersionType::UserAgentBuildVersion(build)) => {
            let version = build.version.as_ref();
            version
                .map(|v| format!("{}.{}.{}", v.major_number, v.minor_number, v.patch))
                .unwrap_or_default()
        }
        None => String::new(),
    };
    format!("{} {version}", node.user_agent_name)
        .trim()
        .to_owned()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
