//! A plan as JSON. Later versions may add fields, and do not rename any.

use oxds_core::preview::{ChangeKind, Danger, SentResource, Step, Why};
use oxds_core::snapshot::ResourceKey;
use oxds_server::Finding;
use serde::Serialize;

use super::outcome::Plan;
use crate::commands::changes::{ChangeReport, JsonChange, Limit};
use crate::commands::validate::JsonFinding;

#[derive(Debug, Default, Serialize)]
pub(super) struct JsonPlan<'a> {
    /// `planned`, or `invalid` if the folder has errors.
    result: &'static str,
    against: &'a str,
    added: usize,
    changed: usize,
    removed: usize,
    changes: Vec<JsonChange>,
    /// Number of changes that are left out.
    more_changes: usize,
    sending: Vec<JsonSending<'a>>,
    /// Number of groups with changes that `sending` lacks.
    more_sending: usize,
    warnings: Vec<JsonDanger>,
    /// Absent if no control plane was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<JsonClients>,
    groups_not_compared: &'a [String],
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonClients {
    connected: usize,
    /// Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    affected: Option<usize>,
}

#[derive(Debug, Serialize)]
struct JsonSending<'a> {
    group: Option<&'a str>,
    steps: Vec<JsonStep<'a>>,
    not_requested: Vec<JsonResource<'a>>,
    delay_seconds: f64,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct JsonStep<'a> {
    #[serde(rename = "type")]
    resource_type: &'a str,
    added: Vec<&'a str>,
    changed: Vec<&'a str>,
    again: Vec<&'a str>,
    removed: Vec<&'a str>,
    waits_for: Vec<JsonWhy<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonWhy<'a> {
    #[serde(rename = "type")]
    resource_type: &'a str,
    name: Option<&'a str>,
    missing: bool,
    overdue: bool,
}

#[derive(Debug, Serialize)]
struct JsonResource<'a> {
    #[serde(rename = "type")]
    resource_type: &'a str,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct JsonDanger {
    rule: &'static str,
    message: String,
}

/// Returns the report of a folder with errors.
pub(super) fn invalid(findings: &[Finding]) -> JsonPlan<'_> {
    JsonPlan {
        result: "invalid",
        findings: findings.iter().map(JsonFinding::of).collect(),
        ..JsonPlan::default()
    }
}

/// Returns the report of a plan.
pub(super) fn plan(plan: &Plan, limit: Limit) -> JsonPlan<'_> {
    let report = ChangeReport {
        changes: &plan.changes,
        limit,
    };
    let counts = plan.changes.counts();
    let clients = plan.clients.as_ref();
    JsonPlan {
        result: "planned",
        against: &plan.against,
        added: counts.added,
        changed: counts.changed,
        removed: counts.removed,
        changes: report.json(|change| clients.and_then(|clients| clients.of(change))),
        more_changes: report.more(),
        sending: plan.sendings.iter().map(JsonSending::of).collect(),
        more_sending: plan.more_sendings,
        warnings: plan.dangers.iter().map(JsonDanger::from).collect(),
        clients: clients.map(|clients| JsonClients {
            connected: clients.connected,
            affected: (!clients.lacks_names).then(|| clients.of_all(&plan.changes.0)),
        }),
        groups_not_compared: &plan.other_groups,
        findings: plan.findings.iter().map(JsonFinding::of).collect(),
    }
}

impl<'a> JsonSending<'a> {
    fn of(
        (group, sending): &'a (Option<std::sync::Arc<str>>, oxds_core::preview::Sending),
    ) -> Self {
        Self {
            group: group.as_deref(),
            steps: sending.steps.iter().map(JsonStep::from).collect(),
            not_requested: sending
                .not_requested
                .iter()
                .map(JsonResource::from)
                .collect(),
            delay_seconds: sending.delay.as_secs_f64(),
            complete: sending.is_complete,
        }
    }
}

impl<'a> From<&'a Step> for JsonStep<'a> {
    fn from(step: &'a Step) -> Self {
        let of_kind = |kind: Option<ChangeKind>| {
            let is_of = |one: &&SentResource| one.change == kind;
            let sent = step.resources.iter().filter(is_of);
            sent.map(|one| &*one.name).collect()
        };
        Self {
            resource_type: step.resource_type.message(),
            added: of_kind(Some(ChangeKind::Added)),
            changed: of_kind(Some(ChangeKind::Changed)),
            again: of_kind(None),
            removed: step.removed.iter().map(|name| &**name).collect(),
            waits_for: step.after.iter().map(JsonWhy::from).collect(),
        }
    }
}

impl<'a> From<&'a Why> for JsonWhy<'a> {
    fn from(why: &'a Why) -> Self {
        Self {
            resource_type: why.resource_type.message(),
            name: why.name.as_deref(),
            missing: why.missing,
            overdue: why.overdue,
        }
    }
}

impl<'a> From<&'a ResourceKey> for JsonResource<'a> {
    fn from((resource_type, name): &'a ResourceKey) -> Self {
        Self {
            resource_type: resource_type.message(),
            name,
        }
    }
}

impl From<&Danger> for JsonDanger {
    fn from(danger: &Danger) -> Self {
        Self {
            rule: danger.rule(),
            message: danger.to_string(),
        }
    }
}
