//! `/status.json`: the state of the server, in a stable format. `docs/status-json.md` describes it.

mod connection;
mod node;
mod query;

use std::sync::Arc;

use oxds_core::rollback::RolledBack;
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use serde::Serialize;

use super::runtime::RuntimeStatus;
use super::state::Admin;
use crate::cache::Cache;
use crate::clients::{Client, ClientCursor};
use crate::context::Context;
use crate::load::ClusterLoad;
use crate::not_representable::{self, NotRepresentableResource};
use crate::store::{Finding, Health, StateStatus};
pub(super) use connection::ConnectionStatus;
#[cfg(feature = "page")]
pub(super) use connection::ReplicaStatus;
pub(super) use node::NodeStatus;
#[cfg(feature = "page")]
pub(super) use node::NodeType;
use node::seconds;
pub(super) use query::{Position, StatusQuery};

/// The content of the page.
#[derive(Serialize)]
pub(crate) struct StatusPage {
    pub(crate) server: ServerStatus,
    pub(crate) snapshot: SnapshotStatus,
    pub(crate) groups: Vec<GroupStatus>,
    pub(crate) store: StoreStatus,
    pub(crate) runtime: RuntimeStatus,
    pub(crate) rollbacks: Vec<RollbackStatus>,
    pub(crate) nodes: Vec<NodeStatus>,
    /// On the first page only.
    pub(crate) away: Vec<AwayNode>,
    pub(crate) loads: Vec<ClusterLoad>,
    pub(crate) page: PageStatus,
}

/// A node that was connected within the last two minutes.
#[derive(Serialize)]
pub(crate) struct AwayNode {
    pub(crate) id: String,
    pub(crate) seconds_ago: f64,
}

/// The place of this page in the lists of clients and loads.
#[derive(Serialize)]
pub(crate) struct PageStatus {
    pub(crate) clients: usize,
    pub(crate) behind: usize,
    pub(crate) loads: usize,
    pub(crate) next: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ServerStatus {
    pub(crate) version: &'static str,
    pub(crate) identifier: Option<String>,
    pub(crate) uptime_seconds: f64,
}

#[derive(Serialize)]
pub(crate) struct SnapshotStatus {
    pub(crate) loaded: bool,
    pub(crate) revision: u64,
    pub(crate) types: Vec<SnapshotType>,
}

#[derive(Serialize)]
pub(crate) struct SnapshotType {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) type_url: String,
    pub(crate) version: String,
    pub(crate) resources: usize,
    pub(crate) not_representable: Vec<NotRepresentableStatus>,
}

/// A resource that v2 clients do not get, because v2 cannot express it.
#[derive(Serialize)]
pub(crate) struct NotRepresentableStatus {
    pub(crate) name: String,
    pub(crate) reasons: Vec<String>,
}

impl From<&NotRepresentableResource> for NotRepresentableStatus {
    fn from(resource: &NotRepresentableResource) -> Self {
        Self {
            name: resource.name.to_string(),
            reasons: resource.reasons.clone(),
        }
    }
}

/// A resource of a group that v2 clients do not get.
#[derive(Serialize)]
pub(crate) struct NotRepresentableOfGroup {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    #[serde(flatten)]
    pub(crate) resource: NotRepresentableStatus,
}

#[derive(Serialize)]
pub(crate) struct GroupStatus {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) resources: usize,
    pub(crate) not_representable: Vec<NotRepresentableOfGroup>,
}

#[derive(Serialize)]
pub(crate) struct StoreStatus {
    pub(crate) updates: u64,
    pub(crate) ended: bool,
    pub(crate) load_seconds: f64,
    #[serde(flatten)]
    pub(crate) connection: Option<ConnectionStatus>,
    pub(crate) stale: Option<StaleStatus>,
    pub(crate) state: Option<StateOnDisk>,
    pub(crate) findings: Vec<StoreFinding>,
    pub(crate) more_findings: FindingCountsStatus,
}

/// The state of an earlier process, while that is served.
#[derive(Serialize)]
pub(crate) struct StaleStatus {
    pub(crate) age_seconds: f64,
}

/// The state on disk.
#[derive(Serialize)]
pub(crate) struct StateOnDisk {
    pub(crate) file: String,
    pub(crate) keeps_secrets: bool,
    pub(crate) saves: u64,
    pub(crate) saved_seconds_ago: Option<f64>,
    pub(crate) unsaved_seconds: Option<f64>,
    pub(crate) error: Option<String>,
}

/// The findings that are only counted.
#[derive(Serialize)]
pub(crate) struct FindingCountsStatus {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
}

#[derive(Serialize)]
pub(crate) struct StoreFinding {
    pub(crate) severity: &'static str,
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) resource: Option<String>,
    pub(crate) path: String,
    pub(crate) rule: &'static str,
    pub(crate) element: Option<String>,
    pub(crate) message: String,
}

#[derive(Serialize)]
pub(crate) struct RollbackStatus {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) version: String,
    pub(crate) rolled_back_to: String,
    /// Node ids; empty for a decision of several replicas.
    pub(crate) nacked_by: Vec<String>,
    /// Number of nodes whose NACKs caused the rollback.
    pub(crate) nodes: u64,
    pub(crate) reason: String,
    /// The resource whose NACK caused the rollback: this one, or one that was changed together with it.
    pub(crate) nacked: NackedCause,
    pub(crate) seconds_ago: f64,
}

#[derive(Serialize)]
pub(crate) struct NackedCause {
    #[serde(rename = "type")]
    pub(crate) resource_type: String,
    pub(crate) name: String,
}

impl StatusPage {
    pub(crate) fn of(admin: &Admin, query: &StatusQuery) -> Self {
        let context = &admin.context;
        let now = context.server.clock.now();
        let snapshot = context.cache.snapshot();
        let not_representable = not_representable::all(&context.cache);
        let lists = Lists::of(admin, query, now);
        Self {
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION"),
                identifier: context.config.identifier.clone(),
                uptime_seconds: context.server.clock.uptime().as_secs_f64(),
            },
            groups: groups(&context.cache, &not_representable),
            store: StoreStatus::of(&admin.health),
            runtime: RuntimeStatus::of(&context.server.runtime),
            rollbacks: rollbacks(context),
            nodes: lists.nodes,
            away: away(context, query, now),
            loads: lists.loads,
            page: PageStatus {
                clients: context.clients.streams.len() + context.clients.polls.len(now),
                behind: context.cache.convergence().pending_sessions(),
                loads: admin.load_reports.count(),
                next: lists.next.map(|position| query.next(&position)),
            },
            snapshot: SnapshotStatus::of(&snapshot, &not_representable),
        }
    }
}

/// Bytes of the clients of a page. A client with many NACKs has megabytes of reasons.
const MAX_PAGE: usize = 768 << 10;

/// The clients and loads of a page.
struct Lists {
    pub(crate) nodes: Vec<NodeStatus>,
    pub(crate) loads: Vec<ClusterLoad>,
    /// Position of the next page; `None` at the end.
    pub(crate) next: Option<Position>,
}

impl Lists {
    fn of(admin: &Admin, query: &StatusQuery, now: Instant) -> Self {
        let mut lists = Self {
            nodes: Vec::new(),
            loads: Vec::new(),
            next: Some(query.after.clone()),
        };
        if query.limit == 0 {
            lists.next = None;
            return lists;
        }
        if let Position::Client(after) = &query.after {
            lists.add_clients(&admin.context, query, after.clone(), now);
        }
        if let Some(Position::Load(after)) = lists.next.clone() {
            let room = query.limit.saturating_sub(lists.nodes.len());
            let selects = |node: &str| query.selects(node);
            let (loads, last) = admin.load_reports.after(after.as_ref(), room, selects);
            lists.loads = loads;
            lists.next = last.map(|last| Position::Load(last.or_else(|| after.clone())));
        }
        lists
    }

    /// Adds clients until the page is full. Other pages have the loads, unless the list of clients ends here.
    fn add_clients(
        &mut self,
        context: &Context,
        query: &StatusQuery,
        mut after: ClientCursor,
        now: Instant,
    ) {
        let (nodes, mut bytes) = (&mut self.nodes, 0);
        while nodes.len() < query.limit && bytes < MAX_PAGE {
            let mut see = |client: &Client<'_>, served: &Snapshot| {
                if query.selects(client.node.map_or("", |node| &node.id)) {
                    let node = NodeStatus::of(client, served, &context.cache, now);
                    bytes += node.bytes();
                    nodes.push(node);
                }
            };
            match context.clients.see_next(&context.cache, after, &mut see) {
                Some(seen) => after = seen,
                None => {
                    self.next = Some(Position::Load(None));
                    return;
                }
            }
        }
        self.next = Some(Position::Client(after));
    }
}

/// Returns the changes that are rolled back at present.
pub(super) fn rollbacks(context: &Context) -> Vec<RollbackStatus> {
    let now = context.server.clock.now();
    let rolled_back = context.rollback.rolled_back();
    let all = rolled_back.iter();
    all.map(|rolled_back| rollback(rolled_back, now)).collect()
}

/// Returns the nodes that have left, if the query is for the first page.
fn away(context: &Context, query: &StatusQuery, now: Instant) -> Vec<AwayNode> {
    if query.after != Position::Client(ClientCursor::Start) {
        return Vec::new();
    }
    let away = context.clients.away(&context.cache).into_iter();
    let away = away.filter(|(id, _)| query.selects(id));
    away.map(|(id, since)| AwayNode {
        id,
        seconds_ago: seconds(now - since),
    })
    .collect()
}

fn groups(cache: &Cache, not_representable: &[NotRepresentableResource]) -> Vec<GroupStatus> {
    let of_group = |name: &Arc<str>| {
        let all = not_representable.iter();
        let own = all.filter(|resource| resource.group.as_ref() == Some(name));
        let own = own.map(|resource| NotRepresentableOfGroup {
            resource_type: resource.resource_type.to_string(),
            resource: resource.into(),
        });
        own.collect()
    };
    let versions = cache.group_versions();
    let version = |name: &Arc<str>| versions.get(name).map(ToString::to_string);
    let groups = cache.groups().into_iter();
    let groups = groups.map(|(name, resources)| GroupStatus {
        not_representable: of_group(&name),
        version: version(&name).unwrap_or_default(),
        name: name.to_string(),
        resources,
    });
    groups.collect()
}

impl SnapshotStatus {
    pub(crate) fn of(snapshot: &Snapshot, not_representable: &[NotRepresentableResource]) -> Self {
        let of_type = |resource_type: &ResourceType| {
            let all = not_representable.iter();
            let own = all.filter(|one| one.group.is_none() && one.resource_type == *resource_type);
            own.map(NotRepresentableStatus::from).collect()
        };
        let types = snapshot
            .types()
            .map(|(resource_type, published)| SnapshotType {
                resource_type: resource_type.to_string(),
                type_url: resource_type.type_url().to_owned(),
                version: published.collection().version().to_string(),
                resources: published.collection().len(),
                not_representable: of_type(resource_type),
            });
        Self {
            loaded: snapshot.is_loaded(),
            revision: snapshot.revision().get(),
            types: types.collect(),
        }
    }
}

impl StoreStatus {
    pub(crate) fn of(health: &Health) -> Self {
        let findings = health.findings();
        Self {
            updates: health.updates(),
            ended: health.has_ended(),
            load_seconds: health.load_time().as_secs_f64(),
            connection: health
                .connection()
                .as_ref()
                .map(|connection| ConnectionStatus::of(connection, &health.replicas())),
            stale: health.stale().map(|stale| StaleStatus {
                age_seconds: stale.age().as_secs_f64(),
            }),
            state: health.state().map(StateOnDisk::of),
            findings: findings.listed.iter().map(StoreFinding::from).collect(),
            more_findings: FindingCountsStatus {
                errors: findings.more.errors,
                warnings: findings.more.warnings,
            },
        }
    }
}

impl StateOnDisk {
    fn of(status: &StateStatus) -> Self {
        let latest = status.latest();
        let ago = latest.saved_at.and_then(|at| at.elapsed().ok());
        Self {
            file: status.file().display().to_string(),
            keeps_secrets: status.keeps_secrets(),
            saves: status.saves(),
            saved_seconds_ago: ago.map(|ago| ago.as_secs_f64()),
            unsaved_seconds: latest
                .unsaved_since
                .map(|since| since.elapsed().as_secs_f64()),
            error: latest.error,
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
            element: finding.element.clone(),
            message: finding.message.clone(),
        }
    }
}

impl RollbackStatus {
    /// Returns the nodes that NACKed it, for people: their ids, or their number if the ids are not known.
    #[cfg(feature = "page")]
    pub(crate) fn nodes_text(&self) -> String {
        if self.nacked_by.is_empty() {
            format!("{} nodes of all replicas", self.nodes)
        } else {
            self.nacked_by.join(", ")
        }
    }
}

/// Returns the version of a resource; empty if it does not exist.
fn version(resource: Option<&Resource>) -> String {
    resource.map_or_else(String::new, |resource| resource.version().to_string())
}

pub(super) fn rollback(rolled_back: &RolledBack, now: Instant) -> RollbackStatus {
    let key = &rolled_back.key;
    let nacked_by = rolled_back.nacked_by.iter();
    RollbackStatus {
        resource_type: key.resource_type.to_string(),
        name: key.name.to_string(),
        group: key.group.as_ref().map(ToString::to_string),
        version: rolled_back
            .version
            .map_or_else(String::new, |version| version.to_string()),
        rolled_back_to: version(rolled_back.last_good.as_deref()),
        nacked_by: nacked_by.map(ToString::to_string).collect(),
        nodes: rolled_back.nodes,
        reason: rolled_back.reason.to_string(),
        nacked: NackedCause {
            resource_type: rolled_back.nacked.0.to_string(),
            name: rolled_back.nacked.1.to_string(),
        },
        seconds_ago: seconds(now - rolled_back.at),
    }
}
