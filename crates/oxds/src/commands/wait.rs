//! `oxds wait`: is my change live everywhere?

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;
use tonic::Code;

use super::clients::{Client, State};
use super::control_plane::{Address, ControlPlane, refused};
use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Between two questions: quick for a person, light for a control plane with thousands of clients.
const PAUSE: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  oxds wait --for acked checkout --timeout 30s   # every client that asks for `checkout` has it
  oxds wait --for acked --all                    # every client has all that is served to it

It looks at what the control plane serves now: a file saved a moment ago may need the tenth of a \
second that it takes to be read. Clients that are not connected are not waited for.

Exit codes: 0 every client accepted the current content, or none asks for it; 1 some did not in time, and \
which is printed; 2 wrong arguments.";

/// Wait until all clients have accepted what is served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to wait for
    #[arg(
        long = "for",
        value_enum,
        value_name = "STATE",
        default_value = "acked"
    )]
    goal: Goal,
    /// The resource, of whatever kind
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    name: Option<String>,
    /// All resources
    #[arg(long)]
    all: bool,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    address: Address,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Goal {
    /// Accepted by the client
    Acked,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let Goal::Acked = args.goal;
    runtime()?.block_on(async {
        let end = Instant::now() + args.timeout;
        let control_plane = ControlPlane::connect(&args.address.server()?).await?;
        loop {
            let last = Instant::now() + PAUSE > end;
            match control_plane.client_status(true).await {
                Ok(clients) => {
                    let clients: Vec<_> = clients.into_iter().map(Client::from).collect();
                    let missing = missing(&clients, args.name.as_deref());
                    if missing.is_empty() {
                        return Ok(Exit::Success);
                    }
                    if last {
                        let mut output = Output::new();
                        missing.iter().try_for_each(|line| output.line(line))?;
                        return Ok(Exit::Negative);
                    }
                }
                // It may be restarting: the channel connects again by itself.
                Err(status) if last || status.code() != Code::Unavailable => {
                    return Err(refused(&status));
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// A line for each client and resource that is not as it should be.
fn missing(clients: &[Client], name: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    for client in clients {
        for held in &client.resources {
            let done = match (held.state, name) {
                (_, Some(name)) if held.name != name => true,
                (State::Synced, _) => true,
                // Nothing is served under the name: nothing that this client could lack.
                (State::Missing, name) => name.is_none(),
                _ => false,
            };
            if !done {
                let (node, kind, name) = (&client.node, &held.kind, &held.name);
                let reason = held
                    .refused
                    .as_ref()
                    .map(|refused| format!(": {}", refused.reason));
                let reason = reason.unwrap_or_default();
                lines.push(format!(
                    "{node} {kind} {name} {}{reason}",
                    held.state.text()
                ));
            }
        }
    }
    lines
}
