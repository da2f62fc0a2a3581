//! `/status.json`: everything that is known, in a shape that stays. Described in `docs/status-json.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::rollback::Withdrawn;
use oxds_core::session::{HeldBack, KindStatus, Nack, Rejection};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::discovery::Node;
use oxds_types::{ApiVersion, Kind};
use serde::Serialize;

use super::Pages;
use crate::cache::Cache;
use crate::clients::{self, About, Subscriber};
use crate::load::ClusterLoad;
use crate::store::Finding;
use crate::withheld::{self, Unsaid};

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
    withheld: Vec<WithheldResource>,
}

/// A resource that clients of API v2 do not get.
#[derive(Serialize)]
struct WithheldResource {
    name: String,
    reasons: Vec<String>,
}

impl From<&Unsaid> for WithheldResource {
    fn from(unsaid: &Unsaid) -> Self {
        Self {
            name: unsaid.name.to_string(),
            reasons: unsaid.reasons.clone(),
        }
    }
}

/// One that is of a group.
#[derive(Serialize)]
struct WithheldOfGroup {
    kind: String,
    #[serde(flatten)]
    resource: WithheldResource,
}

#[derive(Serialize)]
struct GroupStatus {
    name: String,
    resources: usize,
    withheld: Vec<WithheldOfGroup>,
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
    held: usize,
    held_back: Vec<HeldStatus>,
    acks: u64,
    nacks: u64,
    nack: Option<NackStatus>,
    rejected: Vec<RejectedResource>,
}

/// What the client is not told yet.
#[derive(Serialize)]
struct HeldStatus {
    change: &'static str,
    name: Option<String>,
    waits_for: Option<WaitsForStatus>,
    seconds: f64,
}

#[derive(Serialize)]
struct WaitsForStatus {
    kind: String,
    name: Option<String>,
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
        let withheld = withheld::everywhere(&context.cache);
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
            groups: groups(&context.cache, &withheld),
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
            snapshot: SnapshotStatus::of(&snapshot, &withheld),
        }
    }
}

fn groups(cache: &Cache, withheld: &[Unsaid]) -> Vec<GroupStatus> {
    let of_group = |name: &Arc<str>| {
        let withheld = withheld.iter();
        let withheld = withheld.filter(|unsaid| unsaid.group.as_ref() == Some(name));
        let withheld = withheld.map(|unsaid| WithheldOfGroup {
            kind: unsaid.kind.to_string(),
            resource: unsaid.into(),
        });
        withheld.collect()
    };
    let groups = cache.groups().into_iter();
    let groups = groups.map(|(name, resources)| GroupStatus {
        withheld: of_group(&name),
        name: name.to_string(),
        resources,
    });
    groups.collect()
}

impl SnapshotStatus {
    fn of(snapshot: &Snapshot, withheld: &[Unsaid]) -> Self {
        let of_kind = |kind: &Kind| {
            let withheld = withheld.iter();
            let withheld = withheld.filter(|u| u.group.is_none() && u.kind == *kind);
            withheld.map(WithheldResource::from).collect()
        };
        let kinds = snapshot.kinds().map(|(kind, published)| SnapshotKind {
            kind: kind.to_string(),
            type_url: kind.type_url().to_owned(),
            version: published.collection().version().to_string(),
            resources: published.collection().len(),
            withheld: of_kind(kind),
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
    let held_back = client.held_back(&status.kind, snapshot);
    let held_back = held_back.iter().map(|held| held_status(held, now));
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
        held: status.held,
        held_back: held_back.collect(),
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

fn held_status(held: &HeldBack, now: Instant) -> HeldStatus {
    let waits_for = held.waits_for.as_ref();
    HeldStatus {
        change: held.change.as_str(),
        name: held.name.as_ref().map(ToString::to_string),
        waits_for: waits_for.map(|waits_for| WaitsForStatus {
            kind: waits_for.kind.to_string(),
            name: waits_for.name.as_ref().map(ToString::to_string),
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
