//! A plan as text.

use std::sync::Arc;

use oxds_core::preview::{ChangeKind, Sending, Step, Why};
use oxds_server::Finding;
use oxds_types::text;

use super::outcome::Plan;
use crate::commands::changes::{ChangeReport, Limit, totals};
use crate::commands::states::Loaded;
use crate::table::one_line;

/// Names of a step that are printed.
const MAX_NAMES: usize = 8;
/// Steps that are printed.
const MAX_STEPS: usize = 50;
/// Findings that are printed.
const MAX_FINDINGS: usize = 50;

/// Returns the errors of a folder that cannot be planned.
pub(super) fn invalid(loaded: &Loaded) -> String {
    let errors = loaded.errors;
    let plural = if errors == 1 { "" } else { "s" };
    findings(&loaded.findings) + &format!("no plan: the folder has {errors} error{plural}\n")
}

/// Returns the plan.
pub(super) fn plan(plan: &Plan, limit: Limit) -> String {
    let report = ChangeReport {
        changes: &plan.changes,
        limit,
    };
    let clients = plan.clients.as_ref();
    let mut out = findings(&plan.findings);
    out += &report.text(|change| clients.and_then(|clients| clients.of(change)));
    for (group, sending) in &plan.sendings {
        out += &order(group.as_ref(), sending);
    }
    if plan.more_sendings > 0 {
        let more = plan.more_sendings;
        out += &format!("order of sending to nodes of {more} more groups: not determined\n");
    }
    for danger in &plan.dangers {
        out += &format!("warning: {}\n", one_line(&danger.to_string()));
    }
    if !plan.other_groups.is_empty() {
        let groups = listed(plan.other_groups.iter().map(String::as_str));
        out += &format!("not compared: groups that this node is not in: {groups}\n");
    }
    out += &report.table();
    let against = one_line(&plan.against);
    out += &if plan.changes.is_empty() {
        format!("nothing would change against {against}\n")
    } else {
        let counts = totals(plan.changes.counts());
        format!("plan against {against}: {counts}{}\n", affected(plan))
    };
    out
}

fn affected(plan: &Plan) -> String {
    let Some(clients) = &plan.clients else {
        return String::new();
    };
    let connected = clients.connected;
    if clients.lacks_names {
        format!("; {connected} clients are connected, their subscriptions are unknown")
    } else {
        let affected = clients.of_all(&plan.changes.0);
        format!("; for {affected} of {connected} connected clients")
    }
}

fn findings(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings.iter().take(MAX_FINDINGS) {
        out += &format!("{finding}\n");
        if let Some(snippet) = &finding.snippet {
            out += &format!("{}\n", text::lines(snippet.trim_end()));
        }
    }
    if findings.len() > MAX_FINDINGS {
        let more = findings.len() - MAX_FINDINGS;
        out += &format!("and {more} more findings: `oxds validate` prints all\n");
    }
    out
}

fn order(group: Option<&Arc<str>>, sending: &Sending) -> String {
    let nodes = group.map_or_else(String::new, |group| format!(" to nodes of group {group}"));
    let mut out = one_line(&format!("order of sending{nodes}:")) + "\n";
    for (at, step) in sending.steps.iter().take(MAX_STEPS).enumerate() {
        out += &format!("  {}. {}\n", at + 1, one_line(&described(step)));
    }
    if sending.steps.len() > MAX_STEPS {
        let more = sending.steps.len() - MAX_STEPS;
        out += &format!("  and {more} more responses\n");
    }
    if sending.steps.is_empty() {
        out += "  nothing is sent\n";
    }
    if !sending.delay.is_zero() {
        let seconds = sending.delay.as_secs_f64();
        out += &format!("  the last response is held back for {seconds:.1} s by hold timers\n");
    }
    if !sending.not_requested.is_empty() {
        let names: Vec<_> = sending
            .not_requested
            .iter()
            .map(|(resource_type, name)| format!("{resource_type} {name}"))
            .collect();
        let names = listed(names.iter().map(String::as_str));
        out += &one_line(&format!(
            "not requested, because nothing refers to it: {names}"
        ));
        out.push('\n');
    }
    out
}

fn described(step: &Step) -> String {
    let of_kind = |kind: Option<ChangeKind>| {
        let sent = step.resources.iter().filter(move |one| one.change == kind);
        sent.map(|one| &*one.name).collect::<Vec<_>>()
    };
    let removed: Vec<&str> = step.removed.iter().map(|name| &**name).collect();
    let parts = [
        ("added", of_kind(Some(ChangeKind::Added))),
        ("changed", of_kind(Some(ChangeKind::Changed))),
        ("again", of_kind(None)),
        ("removed", removed),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(word, names)| format!("{word} {}", listed(names.into_iter())))
        .collect();
    let after: Vec<_> = step.after.iter().map(why).collect();
    let after = if after.is_empty() {
        String::new()
    } else {
        format!("; waits for {}", after.join(" and "))
    };
    format!("{}: {}{after}", step.resource_type, parts.join(", "))
}

fn why(why: &Why) -> String {
    let name = match &why.name {
        Some(name) => format!("{} {name}", why.resource_type),
        None => format!("the answer to {}", why.resource_type),
    };
    let missing = if why.missing {
        ", which does not exist"
    } else {
        ""
    };
    let overdue = if why.overdue {
        ", until the hold timer ends"
    } else {
        ""
    };
    format!("{name}{missing}{overdue}")
}

/// Joins names, and says how many are left out.
fn listed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let count = names.clone().count();
    let shown: Vec<&str> = names.take(MAX_NAMES).collect();
    let more = match count.saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(" "))
}
