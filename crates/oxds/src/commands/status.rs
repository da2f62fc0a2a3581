//! `oxds status`: what every client of a control plane has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::clients::{Client, Held, Server, State};
use super::{Format, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds status                                    # the control plane on this machine
  oxds status --server 10.0.0.7:18000
  oxds status --format json                      # every resource of every client

It asks by CSDS, so that any control plane which serves that will do. A line for each client and kind:

  SYNCED     it accepted all that is served to it now
  STALE      it was sent, or has, something else, and did not answer yet
  NACKED     it refused what it was sent last; the reason is in its own words
  NOT SENT   it asked, and was sent nothing yet
  MISSING    it asked for names that there are not

Exit codes: 0 nothing is NACKED, 1 something is, or the control plane does not answer.";

/// Show what every client has, lacks and refused
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The control plane: what `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18000")]
    server: String,
    /// The form of the result on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let clients = runtime()?.block_on(async {
        let mut server = Server::connect(&args.server).await?;
        server.clients().await
    })?;
    let mut output = Output::new();
    match args.format {
        Format::Text => output.write(&table(&clients))?,
        Format::Json => output.json(&clients)?,
    }
    let mut resources = clients.iter().flat_map(|client| &client.resources);
    let refused = resources.any(|held| held.state == State::Nacked);
    Ok(if refused {
        Exit::Negative
    } else {
        Exit::Success
    })
}

/// A line for each client and kind, and one for each resource that was refused.
fn table(clients: &[Client]) -> String {
    if clients.is_empty() {
        return "no client is connected\n".to_owned();
    }
    let head = ["NODE", "KIND", "STATUS", "SYNCED"].map(str::to_owned);
    let mut lines = vec![(head, Vec::new())];
    for client in clients {
        let mut kinds: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
        for held in &client.resources {
            kinds.entry(&held.kind).or_default().push(held);
        }
        for (kind, resources) in kinds {
            lines.push(line(client, kind, &resources));
        }
    }
    let mut widths = [0; 4];
    for (cells, _) in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (cells, remarks) in lines {
        let cells = cells.iter().zip(widths);
        let padded: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", padded.join("  ").trim_end());
        for remark in remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    text
}

fn line(client: &Client, kind: &str, resources: &[&Held]) -> ([String; 4], Vec<String>) {
    let states = resources.iter().map(|held| held.state);
    let worst = states.clone().max().map_or("", State::text);
    let synced = states.filter(|state| *state == State::Synced).count();
    let remarks = resources.iter().filter_map(|held| {
        let refused = held.refused.as_ref()?;
        let (name, ago) = (&held.name, refused.seconds_ago);
        Some(format!("{name}: {} ({ago} s ago)", refused.reason))
    });
    let cells = [
        client.node.clone(),
        kind.to_owned(),
        worst.to_owned(),
        format!("{synced}/{}", resources.len()),
    ];
    (cells, remarks.collect())
}

#[cfg(test)]
mod tests {
    use super::super::clients::Refused;
    use super::*;

    #[test]
    fn the_table_shows_the_worst_and_the_reasons() {
        let held = |name: &str, state, refused| Held {
            kind: "cds".into(),
            name: name.into(),
            state,
            acknowledged: String::new(),
            refused,
        };
        let refused = Refused {
            version: "v".into(),
            reason: "no such policy".into(),
            seconds_ago: 3,
        };
        let client = Client {
            node: "edge-1".into(),
            cluster: "edge".into(),
            resources: vec![
                held("a", State::Synced, None),
                held("b", State::Nacked, Some(refused)),
            ],
        };
        assert_eq!(
            table(&[client]),
            "NODE    KIND  STATUS  SYNCED\n\
             edge-1  cds   NACKED  1/2\n  \
             b: no such policy (3 s ago)\n"
        );
        assert_eq!(table(&[]), "no client is connected\n");
    }
}
