//! `oxds wait`: waits until all clients have accepted the current resources.

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;
use tonic::Code;

use super::clients::ClientStatus;
use super::control_plane::{ControlPlane, ControlPlaneArgs, StatusPage, rpc_failed};
#[cfg(feature = "etcd")]
use super::etcd_args::EtcdArgs;
use super::missing::pending_resources;
#[cfg(feature = "etcd")]
use super::replicas;
use super::status::held::HeldUpdates;
use super::store_status::{StoreFinding, StoreStatus};
use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Pause after a change, because several changes mostly come together.
const SETTLE: Duration = Duration::from_millis(50);
/// Pause between two polls of a control plane without a status page: short for a person, and cheap for a
/// control plane with thousands of clients.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait for a change per request of the status page.
const LONG_POLL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  oxds wait --for acked checkout --timeout 30s   # until every subscriber of `checkout` has ACKed it
  oxds wait --for acked --all                    # until every client has ACKed all its resources
  oxds wait --all --etcd http://127.0.0.1:2379   # until the clients of all replicas have answered

It compares with the resources that the control plane serves when it asks. A saved file is served after \
about a tenth of a second: started at once after saving, the command may end before that, because all \
clients have the former content. Clients that are not connected do not count. An invalid file of `oxds serve` is not \
live: the command waits until it is fixed, if the error is in this resource or cannot be assigned to one. \
It also waits for files that are still being written.

With --etcd it waits until every live replica reports that its clients have answered what was published \
when the command began; later publishes do not prolong it. A NACK is an answer: the command ends, prints \
the NACKs of all replicas, and fails.

Exit codes: 0 every client accepted the current content, or none subscribes to it; 1 the timeout \
passed: the clients and the files that are not served are printed; 2 wrong arguments.";

/// Wait until all clients have accepted the current resources
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "oxds wait [OPTIONS] <NAME>\n       oxds wait [OPTIONS] --all")]
#[cfg_attr(feature = "etcd", command(mut_arg("endpoints", |etcd| etcd.conflicts_with_all(["server", "bootstrap"]))))]
pub(crate) struct Args {
    /// State to wait for
    #[arg(
        long = "for",
        value_enum,
        value_name = "STATE",
        default_value = "acked"
    )]
    goal: Goal,
    /// Name of the resource, of any type
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    name: Option<String>,
    /// Wait for all resources
    #[arg(long)]
    all: bool,
    /// Longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Goal {
    /// The client accepted the resource
    Acked,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let Goal::Acked = args.goal;
    #[cfg(feature = "etcd")]
    if let Some(target) = args.etcd.target()? {
        if !args.all {
            let failure = Failure::usage("--etcd: expected --all instead of a name");
            return Err(failure.hint("ask one replica for a name: --server"));
        }
        return replicas::wait(target, &args.control_plane, args.timeout);
    }
    runtime()?.block_on(async {
        let end = Instant::now() + args.timeout;
        let control_plane = ControlPlane::connect(&args.control_plane.server()?).await?;
        let mut page = control_plane.status_summary().await;
        loop {
            let response = control_plane.client_status(true).await;
            let responded = response.is_ok();
            let timed_out = Instant::now() >= end;
            match response {
                Ok(clients) => {
                    let clients: Vec<_> = clients.into_iter().map(ClientStatus::from).collect();
                    let name = args.name.as_deref();
                    let mut pending = unserved_files(page.as_ref(), name);
                    let waiting = pending_resources(&clients, name);
                    if pending.is_empty() && waiting.is_empty() {
                        return Ok(Exit::Success);
                    }
                    if timed_out {
                        let held = HeldUpdates::fetch(&control_plane).await;
                        pending.extend(waiting.iter().map(|one| one.answer(&held).to_string()));
                        let mut output = Output::new();
                        pending.iter().try_for_each(|line| output.line(line))?;
                        return Ok(Exit::Negative);
                    }
                }
                // The control plane may be restarting: the channel reconnects by itself.
                Err(status) if timed_out || status.code() != Code::Unavailable => {
                    return Err(rpc_failed(&status));
                }
                Err(_) => page = None,
            }
            // After the timeout the loop checks once more.
            let changed = changed(&control_plane, page.clone(), responded);
            page = tokio::time::timeout_at(end, changed).await.unwrap_or(page);
        }
    })
}

/// Waits until the state may have changed. Returns the status page of that time, if there is one.
async fn changed(
    control_plane: &ControlPlane,
    page: Option<StatusPage>,
    responded: bool,
) -> Option<StatusPage> {
    let Some(mut page) = page else {
        tokio::time::sleep(POLL_INTERVAL).await;
        // A control plane that responded without a page has none later either.
        return match responded {
            true => None,
            false => control_plane.status_summary().await,
        };
    };
    tokio::time::sleep(SETTLE).await;
    let begun = Instant::now();
    if let Some(next) = control_plane.next_status_summary(&page, LONG_POLL).await {
        page = next;
    } else if begun.elapsed() < LONG_POLL {
        // The request ended early: the control plane is gone, or does not support long polls.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Some(page)
}

/// Returns a line for each finding about files because of which the saved resource is not served: an error, or a file that
/// is still being written.
fn unserved_files(page: Option<&StatusPage>, name: Option<&str>) -> Vec<String> {
    let store = page.map(StoreStatus::of).unwrap_or_default();
    let is_relevant = |finding: &&StoreFinding| match (&finding.resource, name) {
        (Some(resource), Some(name)) => resource == name,
        // An unreadable file may contain any resource.
        (None, _) | (_, None) => true,
    };
    let findings = store.not_served().filter(is_relevant);
    findings.map(ToString::to_string).collect()
}
