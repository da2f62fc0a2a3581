//! `oxds watch`: resources, as they change.

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

use super::following::{Following, Trouble};
use super::{View, runtime, show, source};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::Stop;

/// After a stream or a poll ended, another one is tried this much later.
const AGAIN: Duration = Duration::from_secs(1);
/// For how long a REST server may hold a poll.
const PATIENCE: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  oxds watch clusters                            # a line for each change, until Ctrl-C
  oxds watch eds checkout-v1 -o yaml --delta
  oxds watch lds --bootstrap bootstrap.json -o json | jq -c '[.change, .name]'
  oxds watch cds --transport v2 -o yaml          # as a client of API v2 would

  oxds watch clusters --rest http://127.0.0.1:18001
  oxds watch clusters --rest https://cp.example:18000 --ca ca.pem
  oxds watch endpoints --file endpoints.yaml     # as a client that reads files

It asks by ADS as a client would, with full states or, with --delta, differences, and accepts all \
it is sent: `oxds status` shows it among the clients. When the stream ends it says so on stderr, \
and asks again. A REST server is polled each second, and may hold a poll until something changes; \
`oxds serve` takes polls over TLS on its gRPC port.

Exit codes: 0 stopped by a signal, or the reader went away; 1 the control plane does not answer at \
all, or refuses.";

/// Follow what is served, as a client would
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Of which kind
    #[arg(value_name = "KIND", value_parser = source::resource_type)]
    resource_type: ResourceType,
    /// Only the resources of these names
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Ask for differences instead of full states
    #[arg(long)]
    delta: bool,
    /// Poll a REST server, http:// or https://, instead of a control plane by gRPC
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "server", "bootstrap", "transport", "delta"])]
    rest: Option<String>,
    /// Read a file instead, and follow how it is replaced: .pb, .json, .yaml, .yml, .pb_text, .textproto
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["server", "bootstrap", "transport", "delta", "node_id", "cluster", "ClientSecurity"]
    )]
    file: Option<PathBuf>,
    /// The form of the changes on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
    #[command(flatten)]
    source: source::Asking,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let (source, bootstrap) = args.followed()?;
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        tokio::select! {
            _ = stop.next() => Ok(Exit::Success),
            ended = follow(args, &source, &bootstrap) => ended,
        }
    })
}

impl Args {
    /// What is followed, and who asks.
    fn followed(&self) -> Result<(Source, Bootstrap), Failure> {
        let source = match (&self.rest, &self.file) {
            (Some(url), _) => {
                let rest = match self.source.security().credentials()? {
                    Some(credentials) => Rest::with_credentials(url, credentials),
                    None => Rest::new(url),
                };
                let rest = rest.map_err(Failure::usage)?;
                let rest = rest.refresh_delay(AGAIN).request_timeout(PATIENCE);
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

    /// A file holds what it holds, whatever is asked for.
    fn shows(&self, change: &ObservedChange) -> bool {
        let is_asked = || self.names.iter().any(|name| **name == *change.name);
        self.file.is_none() || self.names.is_empty() || is_asked()
    }
}

/// Refuses what no waiting makes a file of resources.
fn check(file: &Path) -> Result<(), Failure> {
    let name = file.display();
    if file.is_dir() {
        let folder = Failure::usage(format_args!("--file: {name} is a folder"));
        return Err(
            folder.hint("`oxds get KIND --dir` shows what a folder holds, `oxds serve` serves it")
        );
    }
    if Format::from_path(file).is_none() {
        let forms = ".pb, .json, .yaml, .yml, .pb_text or .textproto";
        return Err(Failure::usage(format_args!(
            "--file: {name} does not end in {forms}"
        )));
    }
    if !file.exists() {
        warn!("{name}: there is no such file yet");
    }
    Ok(())
}

async fn follow(args: &Args, source: &Source, bootstrap: &Bootstrap) -> Result<Exit, Failure> {
    let names = args.names.iter().map(|name| Arc::from(&**name));
    let protocol = match args.delta {
        true => Protocol::Delta,
        false => Protocol::Sotw,
    };
    let mut following = Following::start(source, bootstrap, &args.resource_type, names, protocol)?;
    let mut output = Output::new();
    while !output.is_closed() {
        match following.next().await {
            Ok(changes) => changes
                .iter()
                .filter(|change| args.shows(change))
                .try_for_each(|change| {
                    show::change(&mut output, args.output, &args.resource_type, change)
                })?,
            Err(Trouble::Unusable(reason)) => warn!("{reason}"),
            Err(trouble) => {
                let Some(cause) = trouble.passing() else {
                    return Err(trouble.into_failure());
                };
                warn!("{cause}: asking again in {AGAIN:?}");
                tokio::time::sleep(AGAIN).await;
                following.reopen();
            }
        }
    }
    Ok(Exit::Success)
}
