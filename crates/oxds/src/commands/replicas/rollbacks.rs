//! Rollbacks that all replicas follow, for `oxds status --etcd` (G-38).

use oxds_etcd::fleet::Fleet;
use serde::Serialize;

use crate::table::one_line;

/// A resource that all replicas have rolled back.
#[derive(Debug, Serialize)]
pub(super) struct RollbackReport {
    lane: String,
    #[serde(rename = "type")]
    resource_type: String,
    name: String,
    group: Option<String>,
    /// Version that is served; empty if the resource is not served.
    rolled_back_to: String,
    /// Number of nodes whose NACKs caused the rollback.
    nodes: u64,
    reason: String,
    /// The replica that decided.
    decided_by: String,
}

/// Returns each resource that is rolled back.
pub(super) fn of(fleet: &Fleet) -> impl Iterator<Item = RollbackReport> {
    fleet.rollbacks.iter().flat_map(|(lane, decision)| {
        decision.parts.iter().map(move |part| {
            let good = part.good.as_ref();
            let group = part.place.group.as_ref();
            RollbackReport {
                lane: lane.to_string(),
                resource_type: part.place.resource_type.to_string(),
                name: part.place.name.to_string(),
                group: group.map(ToString::to_string),
                rolled_back_to: good.map_or_else(String::new, |good| good.version().to_string()),
                nodes: decision.nodes,
                reason: decision.reason.clone(),
                decided_by: decision.replica.clone(),
            }
        })
    })
}

/// Returns a line for each resource that is rolled back.
pub(super) fn lines(fleet: &Fleet) -> String {
    let lines = of(fleet).map(|one| {
        let group = one.group.map(|group| format!(" of group {group}"));
        let to = if one.rolled_back_to.is_empty() {
            "absence"
        } else {
            &one.rolled_back_to
        };
        let text = format!(
            "lane {}: {} {}{} rolled back to {to} on all replicas, NACKed by {} nodes: {}",
            one.lane,
            one.resource_type,
            one.name,
            group.unwrap_or_default(),
            one.nodes,
            one.reason
        );
        one_line(&text) + "\n"
    });
    lines.collect()
}
