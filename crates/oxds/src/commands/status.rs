//! `oxds status`: the clients of a control plane, and their state for each resource type.

use super::args::control_plane::ControlPlaneArgs;
#[cfg(feature = "etcd")]
use super::args::etcd::EtcdArgs;
use super::clients::SyncState;
use super::control_plane::ControlPlane;
use super::nodes::held::{described, waits_for};
use super::nodes::report::{NackedResource, NodeType, Rollback, StatusReport, WaitsFor, fetch};
#[cfg(feature = "etcd")]
use super::replicas;
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::table::{Table, ago, one_line};

const EXAMPLES: &str = "\
Examples:
  oxds status                                    # the control plane on this machine
  oxds status --server 10.0.0.7:18000
  oxds status --etcd http://127.0.0.1:2379       # all replicas of a configuration in etcd
  oxds status -o json | jq '.nodes[] | select(.types[].state == \"NACKED\") | .id'

It prints a line for each client, by stream or poll, and each resource type:

  SYNCED     the client ACKed all current resources of the type
  STALE      the client has other versions, or has not responded yet
  NACKED     the client NACKed the last response; REASON has its error message
  NOT SENT   the client subscribed, and no response was sent yet
  MISSING    the client subscribed to names that do not exist

A node that left within the last two minutes and has not come back is listed as AWAY.

SENT is the version of the latest response, ACKED that of the latest ACKed response. Control planes \
other than oxds are queried over CSDS, which reports neither.

REASON is the NACKed resource with its error, or the change that is held back (make-before-break) with \
the resource that it waits for: the removal of a cluster waits for the route that still uses it.

Below the table are the changes that `oxds serve --on-nack rollback` rolled back, and the errors in its \
files.

Exit codes: 0 no NACK, no rollback and no error in the files; 1 at least one of them, or no response.";

/// Print the state of every client: current, stale, NACKed or missing
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[cfg_attr(feature = "etcd", command(mut_arg("endpoints", |etcd| etcd.conflicts_with_all(["server", "bootstrap"]))))]
pub(crate) struct Args {
    /// Format of the result on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: View,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    #[cfg(feature = "etcd")]
    if let Some(target) = args.etcd.target()? {
        return replicas::status(target, &args.control_plane, args.output);
    }
    let report = runtime()?.block_on(async {
        let control_plane = ControlPlane::connect(&args.control_plane.server()?).await?;
        fetch(&control_plane).await
    })?;
    args.output.write(&report, || table(&report))?;
    let mut types = report.nodes.iter().flat_map(|node| &node.types);
    let has_nack = types.any(|of_type| of_type.state == SyncState::Nacked);
    let has_error = report.store.errors().next().is_some() || report.store.stale.is_some();
    Ok(if has_nack || has_error || !report.rollbacks.is_empty() {
        Exit::Negative
    } else {
        Exit::Success
    })
}

/// Returns a line for each client and type, for each rollback, for a store that is away, and for each file that is not
/// served as it is.
fn table(report: &StatusReport) -> String {
    let rollbacks = report.rollbacks.iter().map(|rollback| {
        let (resource_type, name) = (&rollback.resource_type, &rollback.name);
        let group = rollback.group.as_ref();
        let group = group.map(|group| format!(" of group {group}"));
        let nacked_by = if rollback.nacked_by.is_empty() {
            format!("{} nodes of all replicas", rollback.nodes)
        } else {
            one_line(&rollback.nacked_by.join(", "))
        };
        format!(
            "{resource_type} {name}{} rolled back to {} {} ago: {} NACKed {}: {}\n",
            group.unwrap_or_default(),
            or_absence(&rollback.rolled_back_to),
            ago(rollback.seconds_ago),
            nacked_by,
            nacked(rollback),
            one_line(&rollback.reason),
        )
    });
    let findings = report
        .store
        .not_served()
        .map(|finding| format!("{finding}\n"));
    let stale = report.store.stale.iter().map(|stale| {
        let age = ago(stale.age_seconds);
        format!("store is not available: the last good state is served, saved {age} ago\n")
    });
    let away = report.away.iter().map(|node| node.line() + "\n");
    let rest = away.chain(rollbacks).chain(stale).chain(findings);
    clients(report) + &rest.collect::<String>()
}

/// Returns the version that was NACKed, or the resource if it is one that was changed together with this one.
fn nacked(rollback: &Rollback) -> String {
    match &rollback.nacked {
        Some(WaitsFor {
            resource_type,
            name: Some(name),
            ..
        }) if (resource_type, name) != (&rollback.resource_type, &rollback.name) => {
            format!("{resource_type} {}", one_line(name))
        }
        _ => or_absence(&rollback.version).to_owned(),
    }
}

/// Returns the version, or a word for the absence of the resource.
fn or_absence(version: &str) -> &str {
    if version.is_empty() {
        "absence"
    } else {
        version
    }
}

fn clients(report: &StatusReport) -> String {
    if report.nodes.is_empty() {
        return "no clients connected\n".to_owned();
    }
    let mut table = Table::new(["NODE", "TYPE", "STATUS", "SENT", "ACKED", "SINCE", "REASON"]);
    for node in &report.nodes {
        for of_type in &node.types {
            table.row([
                node.id.clone(),
                type_and_major(of_type),
                of_type.state.text().to_owned(),
                of_type.sent.clone().unwrap_or_default(),
                of_type.acked.clone().unwrap_or_default(),
                since(of_type).map(ago).unwrap_or_default(),
                reason(of_type),
            ]);
        }
    }
    table.text()
}

/// Returns the type, and the major of the API if it is the previous one.
fn type_and_major(of_type: &NodeType) -> String {
    match &*of_type.api {
        "" | "v3" => of_type.resource_type.clone(),
        previous => format!("{} ({previous})", of_type.resource_type),
    }
}

/// Returns the seconds since the last change of state, or since the oldest change was held back.
fn since(of_type: &NodeType) -> Option<f64> {
    let held_back = of_type.held_back.iter().map(|change| change.seconds);
    let since = of_type.since_seconds;
    since.or_else(|| held_back.max_by(f64::total_cmp))
}

/// Returns the first NACKed resource with its error, or else the first change that is held back, and how
/// many more there are.
fn reason(of_type: &NodeType) -> String {
    if let Some(NackedResource { name, reason, .. }) = of_type.nacked.first() {
        return format!("{name}{}: {reason}", and_more(of_type.nacked.len()));
    }
    if let Some(nack) = &of_type.nack {
        return nack.reason.clone();
    }
    let change = of_type.held_back.first();
    change.map_or_else(String::new, |change| {
        let more = and_more(of_type.held_back_total);
        format!("{}{more}: {}", described(change), waits_for(change))
    })
}

fn and_more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::report::{HeldBackChange, NodeStatus};
    use super::super::store_status::{StaleState, StoreFinding, StoreStatus};
    use super::*;

    #[test]
    fn table_has_a_line_per_type_rollback_and_error() {
        let nacked = |name: &str| NackedResource {
            name: name.into(),
            version: "v".into(),
            reason: "no such policy".into(),
            seconds_ago: 3.0,
        };
        let of_type = |resource_type: &str, state, nacked| NodeType {
            resource_type: resource_type.into(),
            state,
            api: "v3".into(),
            wildcard: false,
            names: 1,
            sent: Some("v2".into()),
            acked: Some("v1".into()),
            since_seconds: Some(300.0),
            nack: None,
            nacked,
            held_back_total: 0,
            held_back: Vec::new(),
        };
        let node = NodeStatus {
            id: "edge-1".into(),
            types: vec![
                of_type("cds", SyncState::Nacked, vec![nacked("a"), nacked("b")]),
                of_type("lds", SyncState::NotSent, vec![]),
            ],
            ..NodeStatus::default()
        };
        let rollback = Rollback {
            resource_type: "cds".into(),
            name: "a".into(),
            group: None,
            version: "v2".into(),
            rolled_back_to: "v1".into(),
            nacked_by: vec!["edge-1".into()],
            nodes: 1,
            reason: "no such policy".into(),
            nacked: None,
            seconds_ago: 3.0,
        };
        let finding = StoreFinding {
            severity: "error".into(),
            file: "a.yaml".into(),
            line: Some(4),
            column: None,
            resource: None,
            path: String::new(),
            rule: String::new(),
            message: "no such field".into(),
        };
        let report = StatusReport {
            nodes: vec![node],
            rollbacks: vec![rollback],
            store: StoreStatus {
                findings: vec![finding],
                stale: Some(StaleState { age_seconds: 7.5 }),
            },
            ..StatusReport::default()
        };
        assert_eq!(
            table(&report),
            "NODE    TYPE  STATUS    SENT  ACKED  SINCE  REASON\n\
             edge-1  cds   NACKED    v2    v1     5m     a and 1 more: no such policy\n\
             edge-1  lds   NOT SENT  v2    v1     5m     -\n\
             cds a rolled back to v1 3.0s ago: edge-1 NACKed v2: no such policy\n\
             store is not available: the last good state is served, saved 7.5s ago\n\
             a.yaml:4: error: no such field\n"
        );
        assert_eq!(table(&StatusReport::default()), "no clients connected\n");
    }

    #[test]
    fn s53_held_back_change_is_the_reason_without_a_nack() {
        let held_back = |name: Option<&str>, waits_for| HeldBackChange {
            change: "removal".into(),
            name: name.map(str::to_owned),
            waits_for,
            seconds: 4.0,
        };
        let route = WaitsFor {
            resource_type: "rds".into(),
            name: Some("main".into()),
            missing: false,
        };
        let mut of_type = NodeType {
            resource_type: "cds".into(),
            state: SyncState::Stale,
            api: String::new(),
            wildcard: false,
            names: 1,
            sent: None,
            acked: None,
            since_seconds: None,
            nack: None,
            nacked: vec![],
            held_back_total: 3,
            held_back: vec![
                held_back(Some("blue"), Some(route.clone())),
                held_back(None, None),
            ],
        };
        assert_eq!(
            reason(&of_type),
            "removal of blue and 2 more: waits for rds main"
        );
        assert_eq!(since(&of_type), Some(4.0));
        of_type.held_back_total = 1;
        of_type.held_back = vec![held_back(Some("blue"), None)];
        assert_eq!(reason(&of_type), "removal of blue: sent next");
        let key = WaitsFor {
            resource_type: "sds".into(),
            name: Some("key".into()),
            missing: true,
        };
        of_type.held_back = vec![held_back(Some("blue"), Some(key))];
        assert_eq!(
            reason(&of_type),
            "removal of blue: waits for sds key, which does not exist"
        );
    }

    #[test]
    fn durations_have_about_two_digits() {
        for (seconds, text) in [(0.44, "0.4s"), (12.0, "12s"), (500.0, "8m"), (1e6, "12d")] {
            assert_eq!(ago(seconds), text);
        }
    }
}
