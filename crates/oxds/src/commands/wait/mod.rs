//! `oxds wait`: waits until all clients have accepted the current resources.
//!
//! ```text
//!   status ──▶ files that are not served, contents other than those of --dir? ── yes ──▶ wait for another status
//!                 │ no                                                                         ▲
//!                 ▼                                                                            │
//!              clients, if they are due (`request_timer`) ── one has not accepted something ──────────┘
//!                 │ all have
//!                 ▼
//!              success
//! ```

mod contents;
mod request_timer;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;
use tonic::Code;

use self::contents::{Contents, behind};
use self::request_timer::{INTERVAL, RequestTimer};
use super::args::control_plane::ControlPlaneArgs;
#[cfg(feature = "etcd")]
use super::args::etcd::EtcdArgs;
use super::args::lifecycle::FolderFieldArgs;
use super::clients::ClientStatus;
use super::control_plane::{ControlPlane, StatusPage, rpc_failed};
use super::nodes::held::HeldUpdates;
use super::nodes::missing::{Pending, pending_resources};
#[cfg(feature = "etcd")]
use super::replicas;
use super::store_status::{StoreFinding, StoreStatus};
use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Pause after a change, because several changes mostly come together.
const SETTLE: Duration = Duration::from_millis(50);
/// Resources without an answer that are printed.
const MAX_LINES: usize = 100;
/// Longest wait for a change per request of the status page.
const LONG_POLL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  oxds wait --for acked checkout --timeout 30s   # until every subscriber of `checkout` has ACKed it
  oxds wait --for acked --all                    # until every client has ACKed all its resources
  oxds wait --dir ./config                       # until DIR is served and every client has ACKed it
  oxds wait --all --etcd http://127.0.0.1:2379   # until the clients of all replicas have answered

It compares with the resources that the control plane serves when it asks. A saved file is served after \
about a tenth of a second: without --dir, a command that is started at once after saving may end before that, because all \
clients have the former content. With --dir it waits until `oxds serve` serves exactly what DIR contains when the command begins. \
Clients that are not connected do not count. An invalid file of `oxds serve` is not \
live: the command waits until it is fixed, if the error is in this resource or cannot be assigned to one. \
It also waits for files that are still being written.

With --etcd it waits until every live replica reports that its clients have answered what was published \
when the command began; later publishes do not prolong it. A NACK is an answer: the command ends, prints \
the NACKs of all replicas, and fails.

Exit codes: 0 every client accepted the current content, or none subscribes to it; 1 the timeout \
passed: the clients and the files that are not served are printed; or DIR has errors; 2 wrong arguments.";

/// Wait until all clients have accepted the current resources
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "oxds wait [OPTIONS] <NAME>\n       oxds wait [OPTIONS] --all\n       oxds wait [OPTIONS] --dir <DIR>")]
#[cfg_attr(feature = "etcd", command(mut_arg("endpoints", |etcd| etcd.conflicts_with_all(["server", "bootstrap", "dir"]))))]
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
        required_unless_present_any = ["all", "dir"],
        conflicts_with_all = ["all", "dir"]
    )]
    name: Option<String>,
    /// Wait for all resources
    #[arg(long)]
    all: bool,
    /// Wait until all resources of this folder are served, and no others, and then for all clients
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    dir: Option<PathBuf>,
    /// Longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    fields: FolderFieldArgs,
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
    let folder = args.dir.as_ref();
    let folder = folder.map(|dir| Contents::of_folder(dir, &args.fields));
    runtime()?.block_on(wait(args, folder.transpose()?))
}

/// Waits until the clients have accepted everything, or the resource; before, until the control plane serves these
/// contents.
async fn wait(args: &Args, folder: Option<Contents>) -> Result<Exit, Failure> {
    let end = Instant::now() + args.timeout;
    let name = args.name.as_deref();
    let control_plane = ControlPlane::connect(&args.control_plane.server()?).await?;
    let mut page = control_plane.status_summary().await;
    if folder.is_some() && page.is_none() {
        let failure = "--dir: the control plane shows no status to this client";
        return Err(Failure::negative(failure)
            .hint("expected `oxds serve`, from the same machine or with its credentials"));
    }
    let mut timer = RequestTimer::new(Instant::now(), name.is_none());
    let mut responded = true;
    loop {
        let now = Instant::now();
        let timed_out = now >= end;
        let mut pending = unserved_files(page.as_ref(), name);
        pending.extend(not_served(folder.as_ref(), page.as_ref()));
        let due = if pending.is_empty() {
            timer.due(behind(page.as_ref()))
        } else {
            None
        };
        if timed_out || due.is_some_and(|due| due <= now) {
            timer.requested(now);
            let response = control_plane.client_status(true).await;
            responded = response.is_ok();
            match response {
                Ok(clients) => {
                    let clients: Vec<_> = clients.into_iter().map(ClientStatus::from).collect();
                    let waiting = pending_resources(&clients, name);
                    if pending.is_empty() && waiting.is_empty() {
                        return Ok(Exit::Success);
                    }
                    if timed_out {
                        report(&control_plane, pending, &waiting).await?;
                        return Ok(Exit::Negative);
                    }
                }
                // The control plane may be restarting: the channel reconnects by itself.
                Err(status) if timed_out || status.code() != Code::Unavailable => {
                    return Err(rpc_failed(&status));
                }
                Err(_) => page = None,
            }
        }
        // The clients may be due before anything changes. After the timeout the loop checks once more.
        let due = due.filter(|due| *due > now).map_or(end, |due| due.min(end));
        let changed = changed(&control_plane, page.clone(), responded);
        if let Ok(next) = tokio::time::timeout_at(due, changed).await {
            page = next;
            timer.status_changed();
        }
    }
}

/// Prints what is missing. The list is bounded: each of thousands of clients may lack each of thousands of resources.
async fn report(
    control_plane: &ControlPlane,
    mut lines: Vec<String>,
    waiting: &[Pending<'_>],
) -> Result<(), Failure> {
    let held = HeldUpdates::fetch(control_plane).await;
    let shown = waiting.iter().take(MAX_LINES);
    lines.extend(shown.map(|one| one.answer(&held).to_string()));
    if waiting.len() > MAX_LINES {
        let nodes: BTreeSet<_> = waiting.iter().map(Pending::node).collect();
        let more = waiting.len() - MAX_LINES;
        lines.push(format!(
            "and {more} more resources; clients in all: {}",
            nodes.len()
        ));
    }
    let mut output = Output::new();
    lines.iter().try_for_each(|line| output.line(line))
}

/// Returns a line for each difference between a folder and what is served.
fn not_served(folder: Option<&Contents>, page: Option<&StatusPage>) -> Vec<String> {
    let Some(folder) = folder else {
        return Vec::new();
    };
    match page.and_then(Contents::of_page) {
        Some(served) => folder.differences(&served),
        None => vec!["the control plane does not show what it serves".to_owned()],
    }
}

/// Waits until the state may have changed. Returns the status page of that time, if there is one.
async fn changed(
    control_plane: &ControlPlane,
    page: Option<StatusPage>,
    responded: bool,
) -> Option<StatusPage> {
    let Some(mut page) = page else {
        tokio::time::sleep(INTERVAL).await;
        // A control plane that responded without a page has none later either.
        return if responded {
            None
        } else {
            control_plane.status_summary().await
        };
    };
    tokio::time::sleep(SETTLE).await;
    let begun = Instant::now();
    if let Some(next) = control_plane.next_status_summary(&page, LONG_POLL).await {
        page = next;
    } else if begun.elapsed() < LONG_POLL {
        // The request ended early: the control plane is gone, or does not support long polls.
        tokio::time::sleep(INTERVAL).await;
    }
    Some(page)
}

/// Returns a line for each finding that keeps a saved resource from being served: an error, or a file that is still
/// being written.
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
