//! `oxds wait`: is my change live everywhere?

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;
use tonic::Code;

use super::clients::{Client, State};
use super::control_plane::{Address, ControlPlane, StatusPage, refused};
use super::store::{Finding, Store};
use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::one_line;

/// After a change: others mostly come with it.
const BREATH: Duration = Duration::from_millis(50);
/// Between two questions to a control plane that does not tell of changes: quick for a person, light for who has
/// thousands of clients.
const PAUSE: Duration = Duration::from_millis(200);
/// For how long it is asked at once to tell of a change.
const LONG: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  oxds wait --for acked checkout --timeout 30s   # every client that asks for `checkout` has it
  oxds wait --for acked --all                    # every client has all that is served to it

It looks at what the control plane serves now: a file saved a moment ago may need the tenth of a \
second that it takes to be read. Clients that are not connected are not waited for. A file of `oxds serve` \
with a mistake is not live: it is waited for until it is mended, if the mistake is in the resource, or in none \
that is known.

Exit codes: 0 every client accepted the current content, or none asks for it; 1 some did not in time, or a file is \
wrong, and which is printed; 2 wrong arguments.";

/// Wait until all clients have accepted what is served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "oxds wait [OPTIONS] <NAME>\n       oxds wait [OPTIONS] --all")]
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
        let mut page = control_plane.status_page().await;
        loop {
            let asked = control_plane.client_status(true).await;
            let answered = asked.is_ok();
            let over = Instant::now() >= end;
            match asked {
                Ok(clients) => {
                    let clients: Vec<_> = clients.into_iter().map(Client::from).collect();
                    let mut missing = broken(page.as_ref(), args.name.as_deref());
                    missing.extend(lacking(&clients, args.name.as_deref()));
                    if missing.is_empty() {
                        return Ok(Exit::Success);
                    }
                    if over {
                        let mut output = Output::new();
                        missing.iter().try_for_each(|line| output.line(line))?;
                        return Ok(Exit::Negative);
                    }
                }
                // It may be restarting: the channel connects again by itself.
                Err(status) if over || status.code() != Code::Unavailable => {
                    return Err(refused(&status));
                }
                Err(_) => page = None,
            }
            // The last look is at the end.
            let changed = changed(&control_plane, page.clone(), answered);
            page = tokio::time::timeout_at(end, changed).await.unwrap_or(page);
        }
    })
}

/// Waits until it may be worth to ask again: the status page by then, if there is one.
async fn changed(
    control_plane: &ControlPlane,
    page: Option<StatusPage>,
    answered: bool,
) -> Option<StatusPage> {
    let Some(mut page) = page else {
        tokio::time::sleep(PAUSE).await;
        // One that answers and has no page has none later.
        return match answered {
            true => None,
            false => control_plane.status_page().await,
        };
    };
    tokio::time::sleep(BREATH).await;
    let begun = Instant::now();
    if let Some(next) = control_plane.next_status_page(&page, LONG).await {
        page = next;
    } else if begun.elapsed() < LONG {
        // It was not waited with: the control plane has gone, or is of another make.
        tokio::time::sleep(PAUSE).await;
    }
    Some(page)
}

/// A line for each mistake that keeps what is waited for from being served.
fn broken(page: Option<&StatusPage>, name: Option<&str>) -> Vec<String> {
    let store = page.map(Store::of).unwrap_or_default();
    let concerns = |error: &&Finding| match (&error.resource, name) {
        (Some(resource), Some(name)) => resource == name,
        // A file that cannot be read may hold anything.
        (None, _) | (_, None) => true,
    };
    let errors = store.errors().filter(concerns);
    errors.map(ToString::to_string).collect()
}

/// A line for each client and resource that is not as it should be.
fn lacking(clients: &[Client], name: Option<&str>) -> Vec<String> {
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
                let (node, resource_type, name) = (&client.node, &held.kind, &held.name);
                let reason = held
                    .refused
                    .as_ref()
                    .map(|refused| format!(": {}", refused.reason));
                let reason = reason.unwrap_or_default();
                let state = held.state.text();
                lines.push(one_line(&format!(
                    "{node} {resource_type} {name} {state}{reason}"
                )));
            }
        }
    }
    lines
}
