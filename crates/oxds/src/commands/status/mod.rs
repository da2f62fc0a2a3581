//! `oxds status`: what every client of a control plane has.

use super::clients::State;
use super::control_plane::{Address, ControlPlane};
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::{Table, one_line};

mod nodes;

use nodes::{HeldBack, NodeKind, Page, Rejected, WaitsFor, page};

const EXAMPLES: &str = "\
Examples:
  oxds status                                    # the control plane on this machine
  oxds status --server 10.0.0.7:18000
  oxds status -o json | jq '.nodes[] | select(.kinds[].state == \"NACKED\") | .id'

A line for each client and kind, whether it has a stream or polls:

  SYNCED     it accepted all that is served to it now
  STALE      it was sent, or has, something else, and did not answer yet
  NACKED     it refused what it was sent last; the reason is in its own words
  NOT SENT   it asked, and was sent nothing yet
  MISSING    it asked for names that there are not

SENT and ACKED are the versions of the latest response, and of the latest that the client accepted. \
A control plane that is not oxds is asked by CSDS, which does not tell them.

REASON says what was refused and why, or what is held back so that nothing breaks, and what that waits for: \
the removal of a cluster for a route that still leads to it, a route for its cluster.

Below are the changes that `oxds serve --on-nack rollback` took back, and what is wrong in its files.

Exit codes: 0 nothing is NACKED, taken back or wrong, 1 something is, or the control plane does not answer.";

/// Show what every client has, lacks and refused
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The form of the result on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
    #[command(flatten)]
    address: Address,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let page = runtime()?.block_on(async {
        let control_plane = ControlPlane::connect(&args.address.server()?).await?;
        page(&control_plane).await
    })?;
    let mut output = Output::new();
    match args.output {
        View::Table => output.write(&table(&page))?,
        View::Yaml => output.yaml(&page)?,
        View::Json => output.json(&page)?,
    }
    let mut kinds = page.nodes.iter().flat_map(|node| &node.kinds);
    let nacked = kinds.any(|kind| kind.state == State::Nacked);
    let broken = page.store.errors().next().is_some();
    Ok(match nacked || broken || !page.rollbacks.is_empty() {
        true => Exit::Negative,
        false => Exit::Success,
    })
}

/// A line for each client and kind, and one for each change that was taken back.
fn table(page: &Page) -> String {
    let rollbacks = page.rollbacks.iter().map(|rollback| {
        let (kind, name, group) = (&rollback.kind, &rollback.name, &rollback.group);
        let group = group.as_ref().map(|group| format!(" of {group}"));
        format!(
            "{kind} {name}{} returned to {} {} ago: {} refused {}: {}\n",
            group.unwrap_or_default(),
            rollback.returned_to,
            ago(rollback.seconds_ago),
            one_line(&rollback.refused_by.join(", ")),
            rollback.version,
            one_line(&rollback.reason),
        )
    });
    let errors = page.store.errors().map(|error| format!("{error}\n"));
    clients(page) + &rollbacks.chain(errors).collect::<String>()
}

fn clients(page: &Page) -> String {
    if page.nodes.is_empty() {
        return "no client is connected\n".to_owned();
    }
    let mut table = Table::new(["NODE", "KIND", "STATUS", "SENT", "ACKED", "SINCE", "REASON"]);
    for node in &page.nodes {
        for kind in &node.kinds {
            table.row([
                node.id.clone(),
                kind.kind.clone(),
                kind.state.text().to_owned(),
                kind.sent.clone().unwrap_or_default(),
                kind.acknowledged.clone().unwrap_or_default(),
                since(kind).map(ago).unwrap_or_default(),
                reason(kind),
            ]);
        }
    }
    table.text()
}

/// For how long it has been so, or has been held back.
fn since(kind: &NodeKind) -> Option<f64> {
    let held = kind.held_back.iter().map(|held| held.seconds);
    kind.since_seconds.or_else(|| held.max_by(f64::total_cmp))
}

/// What was refused and why, or else what is held back: the first, and how many more.
fn reason(kind: &NodeKind) -> String {
    if let Some(Rejected { name, reason, .. }) = kind.rejected.first() {
        return format!("{name}{}: {reason}", and_more(kind.rejected.len()));
    }
    if let Some(nack) = &kind.nack {
        return nack.reason.clone();
    }
    kind.held_back.first().map_or_else(String::new, |held| {
        format!("{}{}: {}", what(held), and_more(kind.held), waiting(held))
    })
}

fn and_more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    }
}

fn what(held: &HeldBack) -> String {
    match &held.name {
        Some(name) => format!("{} of {name}", held.change),
        None => held.change.clone(),
    }
}

/// What has to happen first.
fn waiting(held: &HeldBack) -> String {
    let Some(WaitsFor { kind, name }) = &held.waits_for else {
        return "goes next".to_owned();
    };
    let name = name.as_ref().map(|name| format!(" {name}"));
    format!("waits for {kind}{}", name.unwrap_or_default())
}

/// A time that has passed, to two digits or so: `0.4s`, `12s`, `3m`, `5h`, `9d`.
fn ago(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1}s"),
        ..120.0 => format!("{seconds:.0}s"),
        ..7200.0 => format!("{:.0}m", seconds / 60.0),
        ..172_800.0 => format!("{:.0}h", seconds / 3600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Finding, Store};
    use super::nodes::{Node, Rollback};
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_type_and_the_reasons() {
        let rejected = |name: &str| Rejected {
            name: name.into(),
            version: "v".into(),
            reason: "no such policy".into(),
            seconds_ago: 3.0,
        };
        let kind = |kind: &str, state, rejected| NodeKind {
            kind: kind.into(),
            state,
            sent: Some("v2".into()),
            acknowledged: Some("v1".into()),
            since_seconds: Some(300.0),
            nack: None,
            rejected,
            held: 0,
            held_back: Vec::new(),
        };
        let node = Node {
            id: "edge-1".into(),
            kinds: vec![
                kind("cds", State::Nacked, vec![rejected("a"), rejected("b")]),
                kind("lds", State::NotSent, vec![]),
            ],
            ..Node::default()
        };
        let rollback = Rollback {
            kind: "cds".into(),
            name: "a".into(),
            group: None,
            version: "v2".into(),
            returned_to: "v1".into(),
            refused_by: vec!["edge-1".into()],
            reason: "no such policy".into(),
            seconds_ago: 3.0,
        };
        let finding = Finding {
            severity: "error".into(),
            file: "a.yaml".into(),
            line: Some(4),
            column: None,
            resource: None,
            path: String::new(),
            message: "no such field".into(),
        };
        let page = Page {
            nodes: vec![node],
            rollbacks: vec![rollback],
            store: Store {
                findings: vec![finding],
            },
        };
        assert_eq!(
            table(&page),
            "NODE    KIND  STATUS    SENT  ACKED  SINCE  REASON\n\
             edge-1  cds   NACKED    v2    v1     5m     a and 1 more: no such policy\n\
             edge-1  lds   NOT SENT  v2    v1     5m     -\n\
             cds a returned to v1 3.0s ago: edge-1 refused v2: no such policy\n\
             a.yaml:4: error: no such field\n"
        );
        assert_eq!(table(&Page::default()), "no client is connected\n");
    }

    #[test]
    fn s53_what_is_held_back_is_the_reason_of_a_client_that_refused_nothing() {
        let held = |name: Option<&str>, waits_for| HeldBack {
            change: "removal".into(),
            name: name.map(str::to_owned),
            waits_for,
            seconds: 4.0,
        };
        let route = WaitsFor {
            kind: "rds".into(),
            name: Some("main".into()),
        };
        let mut kind = NodeKind {
            kind: "cds".into(),
            state: State::Stale,
            sent: None,
            acknowledged: None,
            since_seconds: None,
            nack: None,
            rejected: vec![],
            held: 3,
            held_back: vec![held(Some("blue"), Some(route.clone())), held(None, None)],
        };
        assert_eq!(
            reason(&kind),
            "removal of blue and 2 more: waits for rds main"
        );
        assert_eq!(since(&kind), Some(4.0));
        (kind.held, kind.held_back) = (1, vec![held(Some("blue"), None)]);
        assert_eq!(reason(&kind), "removal of blue: goes next");
    }

    #[test]
    fn times_are_told_shortly() {
        for (seconds, said) in [(0.44, "0.4s"), (12.0, "12s"), (500.0, "8m"), (1e6, "12d")] {
            assert_eq!(ago(seconds), said);
        }
    }
}
