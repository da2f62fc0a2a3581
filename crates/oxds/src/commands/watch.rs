//! `oxds watch`: resources, as they change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::source::Rest;
use oxds_client::{Bootstrap, Source};
use oxds_core::snapshot::Protocol;
use oxds_types::Kind;
use tonic::Code;
use tracing::warn;

use super::control_plane::refused;
use super::looking::Looking;
use super::observe::Following;
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
  oxds watch endpoints --file endpoints.yaml     # as a client that reads files

It asks by ADS as a client would, with full states or, with --delta, differences, and accepts all \
it is sent: `oxds status` shows it among the clients. When the stream ends it says so on stderr, \
and asks again. A REST server is polled each second, and may hold a poll until something changes.

Exit codes: 0 stopped by a signal, or the reader went away; 1 the control plane does not answer at \
all, or refuses.";

/// Follow what is served, as a client would
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Of which kind
    #[arg(value_name = "KIND", value_parser = source::kind)]
    kind: Kind,
    /// Only the resources of these names
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Ask for differences instead of full states
    #[arg(long)]
    delta: bool,
    /// Poll a REST server instead of a control plane by gRPC
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "server", "bootstrap", "transport", "delta"])]
    rest: Option<String>,
    /// Read a file instead, and follow how it is replaced: .pb, .json, .yaml, .yml, .pb_text, .textproto
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["server", "bootstrap", "transport", "delta", "node_id", "cluster"]
    )]
    file: Option<PathBuf>,
    /// The form of the changes on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
    #[command(flatten)]
    source: source::Asking,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let followed = args.followed()?;
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        let following = async {
            match &followed {
                Followed::Stream(source) => follow(args, source).await,
                Followed::Source(source, bootstrap) => look_at(args, source, bootstrap).await,
            }
        };
        tokio::select! {
            _ = stop.next() => Ok(Exit::Success),
            ended = following => ended,
        }
    })
}

/// What is followed.
enum Followed {
    Stream(Box<source::Source>),
    /// A source without a stream, and who asks.
    Source(Box<Source>, Box<Bootstrap>),
}

impl Args {
    fn followed(&self) -> Result<Followed, Failure> {
        let source = match (&self.rest, &self.file) {
            (Some(url), _) => {
                let rest = Rest::new(url).map_err(Failure::usage)?;
                let rest = rest.refresh_delay(AGAIN).request_timeout(PATIENCE);
                rest.into()
            }
            (None, Some(file)) => Source::file(file),
            (None, None) => return Ok(Followed::Stream(Box::new(self.source.source()?))),
        };
        let bootstrap = self.source.without_server()?;
        Ok(Followed::Source(Box::new(source), Box::new(bootstrap)))
    }
}

async fn look_at(args: &Args, source: &Source, bootstrap: &Bootstrap) -> Result<Exit, Failure> {
    let names = args.names.iter().map(|name| Arc::from(&**name)).collect();
    let mut looking = Looking::start(source, bootstrap, &args.kind, names)?;
    let mut output = Output::new();
    while !output.is_closed() {
        match looking.next().await {
            Ok(changes) => changes.iter().try_for_each(|change| {
                show::change(&mut output, args.output, &args.kind, change)
            })?,
            Err(reason) => warn!("{reason}"),
        }
    }
    Ok(Exit::Success)
}

async fn follow(args: &Args, source: &source::Source) -> Result<Exit, Failure> {
    let names = args.names.iter().map(|name| Arc::from(&**name));
    let protocol = match args.delta {
        true => Protocol::Delta,
        false => Protocol::Sotw,
    };
    let mut following = Following::start(source, args.kind.clone(), names, protocol).await?;
    let mut output = Output::new();
    while !output.is_closed() {
        match following.next().await {
            Ok(changes) => changes.iter().try_for_each(|change| {
                show::change(&mut output, args.output, &args.kind, change)
            })?,
            // Control planes come and go; what they refuse they will refuse again.
            Err(status) if status.code() == Code::Unavailable => {
                warn!("{}: asking again in {AGAIN:?}", status.message());
                tokio::time::sleep(AGAIN).await;
            }
            Err(status) => return Err(refused(&status)),
        }
    }
    Ok(Exit::Success)
}
