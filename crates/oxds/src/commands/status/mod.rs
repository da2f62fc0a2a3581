//! `oxds status`: what every client of a control plane has.

use super::clients::State;
use super::control_plane::{Address, ControlPlane};
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::Table;

mod nodes;

use nodes::{NodeKind, Page, page};

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

Below are the changes that `oxds serve --on-nack rollback` took back.

Exit codes: 0 nothing is NACKED or taken back, 1 something is, or the control plane does not answer.";

/// Show what every client has, lacks and refused
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    address: Address,
    /// The form of the result on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
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
    Ok(match nacked || !page.rollbacks.is_empty() {
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
            rollback.refused_by.join(", "),
            rollback.version,
            rollback.reason,
        )
    });
    clients(page) + &rollbacks.collect::<String>()
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
                kind.since_seconds.map(ago).unwrap_or_default(),
                reason(kind),
            ]);
        }
    }
    table.text()
}

/// What was refused and why: the first, and how many more.
fn reason(kind: &NodeKind) -> String {
    let Some(first) = kind.rejected.first() else {
        let nack = kind.nack.as_ref();
        return nack.map(|nack| nack.reason.clone()).unwrap_or_default();
    };
    let (name, reason) = (&first.name, &first.reason);
    match kind.rejected.len() - 1 {
        0 => format!("{name}: {reason}"),
        more => format!("{name} and {more} more: {reason}"),
    }
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
    use super::nodes::{Node, Rejected, Rollback};
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_kind_and_the_reasons() {
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
        let page = Page {
            nodes: vec![node],
            rollbacks: vec![rollback],
        };
        assert_eq!(
            table(&page),
            "NODE    KIND  STATUS    SENT  ACKED  SINCE  REASON\n\
             edge-1  cds   NACKED    v2    v1     5m     a and 1 more: no such policy\n\
             edge-1  lds   NOT SENT  v2    v1     5m     -\n\
             cds a returned to v1 3.0s ago: edge-1 refused v2: no such policy\n"
        );
        assert_eq!(table(&Page::default()), "no client is connected\n");
    }

    #[test]
    fn times_are_told_shortly() {
        for (seconds, said) in [(0.44, "0.4s"), (12.0, "12s"), (500.0, "8m"), (1e6, "12d")] {
            assert_eq!(ago(seconds), said);
        }
    }
}
