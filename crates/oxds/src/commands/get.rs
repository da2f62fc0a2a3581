//! `oxds get`: the resources of a control plane or of a folder.

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

#[cfg(feature = "etcd")]
use super::args::etcd::EtcdArgs;
use super::args::{dynamic_fields, source};
use super::fetch::QUIET;
use super::print::{self, NamedResource};
#[cfg(feature = "etcd")]
use super::published;
use super::subscription::{FollowError, Subscription};
use super::{View, dir_options, duration, runtime, unreadable};
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds get clusters                              # a table of the clusters served to a client
  oxds get cds checkout -o yaml
  oxds get listeners --node-id edge-1 --server 10.0.0.7:18000
  oxds get clusters -o yaml --dir ./config       # the clusters of a folder, without a control plane
  oxds get clusters --etcd http://127.0.0.1:2379 # what is published, without a control plane

It sends one subscription to the control plane, by delta ADS. Deprecated, unfinished and unknown fields of the \
resources are warnings on stderr. TYPE is a short name (cds, eds, lds, \
rds, sds, …), the name of a message (cluster, listener, …) or its full name.

Exit codes: 0 printed; 1 resource NAME not found, no response from the control plane or etcd, or \
errors in the files of the folder or in the keys of etcd.";

/// Print the resources that a control plane serves, or those of a folder or of etcd
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[cfg_attr(feature = "etcd", command(mut_arg("endpoints", |etcd| etcd.conflicts_with_all(["server", "bootstrap", "node_id", "cluster", "dir"]))))]
pub(crate) struct Args {
    /// Resource type, for example `cds` or `clusters`
    #[arg(value_name = "TYPE", value_parser = source::resource_type)]
    resource_type: ResourceType,
    /// Print only the resource of this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Format of the resources on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: View,
    /// Read a folder instead of a control plane
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "bootstrap", "node_id", "cluster"])]
    dir: Option<PathBuf>,
    /// Time to wait for the first response of the control plane
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    source: source::SourceArgs,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let (mut found, exit) = match (&args.dir, from_etcd(args)?) {
        (_, Some(published)) => published,
        (Some(dir), None) => from_folder(dir, &args.resource_type)?,
        (None, None) => {
            let bootstrap = args.source.bootstrap()?;
            let served = runtime()?.block_on(from_control_plane(args, &bootstrap))?;
            (served, Exit::Success)
        }
    };
    if let Some(name) = &args.name {
        found.retain(|resource| resource.name == *name);
        if found.is_empty() {
            let resource_type = &args.resource_type;
            return Err(Failure::negative(format_args!(
                "{resource_type} {name:?} not found"
            )));
        }
    }
    print::resources(&mut Output::new(), args.output, &args.resource_type, &found)?;
    Ok(exit)
}

/// Fetches the resources of a control plane. Uses delta, because a delta server reports a missing
/// resource at once, and a SotW server does not.
async fn from_control_plane(
    args: &Args,
    bootstrap: &Bootstrap,
) -> Result<Vec<NamedResource>, Failure> {
    let names = args.name.as_deref().map(Arc::from);
    let source = Source::ads();
    let mut subscription = Subscription::start(
        &source,
        bootstrap,
        &args.resource_type,
        names,
        Protocol::Delta,
    )?
    .with_check(dynamic_fields::warnings());
    let first = timeout(args.timeout, subscription.next()).await;
    first
        .map_err(|_| {
            Failure::negative(format_args!("no response from {}", subscription.uri()))
                .hint("it may have no resources for this node: see --node-id")
        })?
        .map_err(FollowError::into_failure)?;
    // The stream does not end after the last response: a pause means that the answer is complete.
    while let Ok(more) = timeout(QUIET, subscription.next()).await {
        more.map_err(FollowError::into_failure)?;
    }
    let resources = subscription.resources();
    Ok(resources
        .map(|(name, resource)| NamedResource {
            name: name.to_string(),
            resource: resource.clone(),
        })
        .collect())
}

/// Reads what is published in etcd, if the options name one.
#[cfg(feature = "etcd")]
fn from_etcd(args: &Args) -> Result<Option<(Vec<NamedResource>, Exit)>, Failure> {
    let target = args.etcd.target()?;
    target
        .map(|target| published::resources(target, &args.resource_type))
        .transpose()
}

#[cfg(not(feature = "etcd"))]
fn from_etcd(_: &Args) -> Result<Option<(Vec<NamedResource>, Exit)>, Failure> {
    Ok(None)
}

/// Reads the resources of a folder, and logs its errors.
fn from_folder(
    dir: &Path,
    resource_type: &ResourceType,
) -> Result<(Vec<NamedResource>, Exit), Failure> {
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
        .map(|resource| NamedResource {
            name: resource.name().to_string(),
            resource: ObservedResource {
                version: resource.version().to_string(),
                api: ApiVersion::V3,
                value: resource.value(),
            },
        })
        .collect();
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok((found, exit))
}
