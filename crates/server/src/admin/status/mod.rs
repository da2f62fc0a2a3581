//! `/status.json`: the state of the server, in a stable format. `docs/status-json.md` describes it.

mod node;

use std::sync::Arc;

use oxds_core::rollback::RolledBack;
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use serde::Serialize;

use super::state::Admin;
use crate::cache::Cache;
use crate::load::ClusterLoad;
use crate::not_representable::{self, NotRepresentableResource};
use crate::store::Finding;
use node::{NodeStatus, seconds};

/// The content of the page.
#[derive(Serialize)]
pub(super) struct StatusPage {
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

/// A resource that v2 clients do not get, because v2 cannot express it.
#[derive(Serialize)]
struct WithheldResource {
    name: String,
    reasons: Vec<String>,
}

impl From<&NotRepresentableResource> for WithheldResource {
    fn from(resource: &NotRepresentableResource) -> Self {
        Self {
            name: resource.name.to_string(),
            reasons: resource.reasons.clone(),
        }
    }
}

/// A withheld resource of a group.
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

impl StatusPage {
    pub(super) fn of(admin: &Admin) -> Self {
        let context = &admin.context;
        let now = context.server.clock.now();
        let snapshot = context.cache.snapshot();
        let withheld = not_representable::all(&context.cache);
        let mut nodes = Vec::new();
        context.clients.each(&context.cache, |client, served| {
            nodes.push(NodeStatus::of(client, served, &context.cache, now));
        });
        Self {
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION"),
                identifier: context.config.identifier.clone(),
                uptime_seconds: now.since_epoch().as_secs_f64(),
            },
            groups: groups(&context.cache, &withheld),
            store: StoreStatus {
                updates: admin.health.updates(),
                ended: admin.health.has_ended(),
                load_seconds: admin.health.load_time().as_secs_f64(),
                findings: admin
                    .health
                    .findings()
                    .iter()
                    .map(StoreFinding::from)
                    .collect(),
            },
            rollbacks: context
                .rollback
                .rolled_back()
                .iter()
                .map(|rolled_back| rollback(rolled_back, now))
                .collect(),
            nodes,
            loads: admin.load_reports.loads(),
            snapshot: SnapshotStatus::of(&snapshot, &withheld),
        }
    }
}

fn groups(cache: &Cache, withheld: &[NotRepresentableResource]) -> Vec<GroupStatus> {
    let of_group = |name: &Arc<str>| {
        let withheld = withheld.iter();
        let withheld = withheld.filter(|resource| resource.group.as_ref() == Some(name));
        let withheld = withheld.map(|resource| WithheldOfGroup {
            kind: resource.resource_type.to_string(),
            resource: resource.into(),
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
    fn of(snapshot: &Snapshot, withheld: &[NotRepresentableResource]) -> Self {
        let of_type = |kind: &ResourceType| {
            let withheld = withheld.iter();
            let withheld = withheld.filter(|u| u.group.is_none() && u.resource_type == *kind);
            withheld.map(WithheldResource::from).collect()
        };
        let kinds = snapshot.types().map(|(kind, published)| SnapshotKind {
            kind: kind.to_string(),
            type_url: kind.type_url().to_owned(),
            version: published.collection().version().to_string(),
            resources: published.collection().len(),
            withheld: of_type(kind),
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

fn rollback(rolled_back: &RolledBack, now: Instant) -> RollbackStatus {
    let key = &rolled_back.key;
    let nacked_by = rolled_back.nacked_by.iter();
    RollbackStatus {
        kind: key.resource_type.to_string(),
        name: key.name.to_string(),
        group: key.group.as_ref().map(ToString::to_string),
        version: rolled_back.nacked.version().to_string(),
        returned_to: rolled_back.last_good.version().to_string(),
        refused_by: nacked_by.map(ToString::to_string).collect(),
        reason: rolled_back.reason.to_string(),
        seconds_ago: seconds(now - rolled_back.at),
    }
}
