//! `oxds watch`: the changes of resources, as a client sees them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oxds_client::source::Rest;
use oxds_client::{Bootstrap, Source};
use oxds_core::observe::ObservedChange;
use oxds_core::snapshot::Protocol;
use oxds_types::ResourceType;
use oxds_types::codec::Format;
use tracing::warn;

use super::args::dynamic_fields::DynamicFieldArgs;
use super::args::source;
use super::subscription::{FollowError, Subscription};
use super::{View, print, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::StopSignals;

/// Time between the end of a stream or poll and the next one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest time that a REST server may hold a poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  oxds watch clusters                            # a line for each change, until Ctrl-C
  oxds watch eds checkout-v1 -o yaml --delta
  oxds watch lds --bootstrap bootstrap.json -o json | jq -c '[.change, .name]'
  oxds watch cds --transport v2 -o yaml          # as a client of API v2

  oxds watch clusters --rest http://127.0.0.1:18001
  oxds watch clusters --rest https://cp.example:18000 --ca ca.pem
  oxds watch endpoints --file endpoints.yaml     # as a client that reads files

It subscribes over ADS like a client, by SotW or, with --delta, by delta, and ACKs every valid response: \
`oxds status` lists it among the clients. When the stream ends it logs that on stderr and reconnects. \
A REST server is polled every second, and may hold a poll until something changes; `oxds serve` \
accepts polls over TLS on its gRPC port.

Exit codes: 0 stopped by a signal, or the reader of stdout closed it; 1 the control plane cannot be \
reached at the start, or rejects the subscription.";

/// Print the changes of resources, as a client sees them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Resource type, for example `cds` or `clusters`
    #[arg(value_name = "TYPE", value_parser = source::resource_type)]
    resource_type: ResourceType,
    /// Subscribe only to the resources of these names
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Subscribe by delta instead of SotW
    #[arg(long)]
    delta: bool,
    /// Poll a REST server at this http:// or https:// URL instead of a gRPC control plane
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "server", "bootstrap", "transport", "delta"])]
    rest: Option<String>,
    /// Read a file instead, and again when it is replaced: .pb, .json, .yaml, .yml, .pb_text, .textproto
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["server", "bootstrap", "transport", "delta", "node_id", "cluster", "ClientSecurity"]
    )]
    file: Option<PathBuf>,
    /// Format of the changes on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: View,
    #[command(flatten)]
    fields: DynamicFieldArgs,
    // Last: its heading would hold for the options after it.
    #[command(flatten)]
    source: source::SourceArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let (source, bootstrap) = args.source_and_bootstrap()?;
    runtime()?.block_on(async {
        let mut stop = StopSignals::listen()?;
        tokio::select! {
            _ = stop.next() => Ok(Exit::Success),
            ended = follow(args, &source, &bootstrap) => ended,
        }
    })
}

impl Args {
    /// Returns the source to follow, and the bootstrap with the node and server.
    fn source_and_bootstrap(&self) -> Result<(Source, Bootstrap), Failure> {
        let source = match (&self.rest, &self.file) {
            (Some(url), _) => {
                let rest = match self.source.security().credentials()? {
                    Some(credentials) => Rest::with_credentials(url, credentials),
                    None => Rest::new(url),
                };
                let rest = rest.map_err(Failure::usage)?;
                let rest = rest
                    .refresh_delay(RETRY_DELAY)
                    .request_timeout(POLL_TIMEOUT);
                rest.into()
            }
            (None, Some(file)) => {
                check(file)?;
                Source::file(file)
            }
            (None, None) => return Ok((Source::ads(), self.source.bootstrap()?)),
        };
        Ok((source, self.source.without_server()?))
    }

    /// Returns whether a change is printed. A file has resources of all names, so they are filtered here.
    fn is_selected(&self, change: &ObservedChange) -> bool {
        let is_named = || self.names.iter().any(|name| **name == *change.name);
        self.file.is_none() || self.names.is_empty() || is_named()
    }
}

/// Fails for a path that can never become a file of resources. Warns if the file does not exist yet.
fn check(file: &Path) -> Result<(), Failure> {
    let name = file.display();
    if file.is_dir() {
        let folder = Failure::usage(format_args!("--file: {name} is a folder"));
        return Err(folder.hint(
            "`oxds get TYPE --dir` prints the resources of a folder, `oxds serve` serves it",
        ));
    }
    if Format::from_path(file).is_none() {
        let extensions = ".pb, .json, .yaml, .yml, .pb_text or .textproto";
        return Err(Failure::usage(format_args!(
            "--file: unknown file type {name}: expected {extensions}"
        )));
    }
    if !file.exists() {
        warn!(file = %name, "file not found, waiting for it");
    }
    Ok(())
}

async fn follow(args: &Args, source: &Source, bootstrap: &Bootstrap) -> Result<Exit, Failure> {
    let names = args.names.iter().map(|name| Arc::from(&**name));
    let protocol = if args.delta {
        Protocol::Delta
    } else {
        Protocol::Sotw
    };
    let mut subscription =
        Subscription::start(source, bootstrap, &args.resource_type, names, protocol)?
            .with_check(args.fields.check()?);
    let mut output = Output::new();
    while !output.is_closed() {
        match subscription.next().await {
            Ok(changes) => changes
                .iter()
                .filter(|change| args.is_selected(change))
                .try_for_each(|change| {
                    print::change(&mut output, args.output, &args.resource_type, change)
                })?,
            Err(FollowError::Invalid(reason)) => warn!(%reason, "no valid update"),
            Err(error) => {
                let Some(cause) = error.retryable() else {
                    return Err(error.into_failure());
                };
                warn!(%cause, retry_in = ?RETRY_DELAY, "stream ended");
                tokio::time::sleep(RETRY_DELAY).await;
                subscription.reopen();
            }
        }
    }
    Ok(Exit::Success)
}
