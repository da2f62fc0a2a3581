//! `oxds get`: what is served, or what a folder holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oxds_client::{Bootstrap, Source};
use oxds_core::observe::ObservedResource;
use oxds_core::snapshot::Protocol;
use oxds_server::{Severity, dir};
use oxds_types::{ApiVersion, ResourceType};
use tokio::time::timeout;
use tracing::error;

use super::following::{Following, Trouble};
use super::show::{self, Shown};
use super::source;
use super::{View, dir_options, duration, runtime, unreadable};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// A large answer comes in several responses, one close behind the other.
const QUIET: Duration = Duration::from_millis(150);

const EXAMPLES: &str = "\
Examples:
  oxds get clusters                              # what is served to a client, in a table
  oxds get cds checkout -o yaml
  oxds get listeners --node-id edge-1 --server 10.0.0.7:18000
  oxds get clusters -o yaml --dir ./config       # what a folder holds, without a control plane

A control plane is asked by delta ADS, once. KIND is a short name (cds, eds, lds, rds, sds, …), the \
name of a message (cluster, listener, …) or its full name.

Exit codes: 0 printed, 1 there is no resource NAME, the control plane does not answer, or files of \
the folder have errors.";

/// Show what is served, or what a folder holds
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Of which kind
    #[arg(value_name = "KIND", value_parser = source::resource_type)]
    resource_type: ResourceType,
    /// Only the resource of this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The form of the result on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
    /// A folder, instead of a control plane
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "bootstrap", "node_id", "cluster"])]
    dir: Option<PathBuf>,
    /// For how long to wait for the control plane's answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    source: source::Asking,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let (mut found, exit) = match &args.dir {
        Some(dir) => held(dir, &args.resource_type)?,
        None => {
            let bootstrap = args.source.bootstrap()?;
            let served = runtime()?.block_on(served(args, &bootstrap))?;
            (served, Exit::Success)
        }
    };
    if let Some(name) = &args.name {
        found.retain(|shown| shown.name == *name);
        if found.is_empty() {
            let resource_type = &args.resource_type;
            return Err(Failure::negative(format_args!(
                "there is no {resource_type} {name:?}"
            )));
        }
    }
    show::resources(&mut Output::new(), args.output, &args.resource_type, &found)?;
    Ok(exit)
}

/// What a control plane says, by differences: those tell at once that there is nothing.
async fn served(args: &Args, bootstrap: &Bootstrap) -> Result<Vec<Shown>, Failure> {
    let names = args.name.as_deref().map(Arc::from);
    let source = Source::ads();
    let mut following = Following::start(
        &source,
        bootstrap,
        &args.resource_type,
        names,
        Protocol::Delta,
    )?;
    let first = timeout(args.timeout, following.next()).await;
    first
        .map_err(|_| {
            Failure::negative(format_args!("no answer from {}", following.uri()))
                .hint("it may have nothing to say to this node: see --node-id")
        })?
        .map_err(Trouble::into_failure)?;
    // The stream stays open when all is said: quiet is the end.
    while let Ok(more) = timeout(QUIET, following.next()).await {
        more.map_err(Trouble::into_failure)?;
    }
    let held = following.held();
    Ok(held
        .map(|(name, held)| Shown {
            name: name.to_string(),
            held: held.clone(),
        })
        .collect())
}

/// What a folder holds. Its errors are logged.
fn held(dir: &Path, resource_type: &ResourceType) -> Result<(Vec<Shown>, Exit), Failure> {
    let report = dir::load(dir, &dir_options(false, false)).map_err(|error| unreadable(&error))?;
    let errors = report.findings.iter();
    let errors = errors.filter(|finding| finding.severity == Severity::Error);
    let exit = match errors.inspect(|finding| error!("{finding}")).count() {
        0 => Exit::Success,
        _ => Exit::Negative,
    };
    let of_type = report
        .resources
        .iter()
        .filter(|r| r.resource_type() == resource_type);
    let mut found: Vec<_> = of_type
        .map(|resource| Shown {
            name: resource.name().to_string(),
            held: ObservedResource {
                version: resource.version().to_string(),
                api: ApiVersion::V3,
                value: resource.value(),
            },
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((found, exit))
}
