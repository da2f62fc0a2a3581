//! `oxds watch`: resources, as they change.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::snapshot::Protocol;
use oxds_types::Kind;
use tonic::Code;
use tracing::warn;

use super::control_plane::refused;
use super::observe::Following;
use super::{View, runtime, show, source};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::Stop;

/// After a stream ended, another one is tried this much later.
const AGAIN: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  oxds watch clusters                            # a line for each change, until Ctrl-C
  oxds watch eds checkout-v1 -o yaml --delta
  oxds watch lds --bootstrap bootstrap.json -o json | jq -c '[.change, .name]'
  oxds watch cds --transport v2 -o yaml          # as a client of API v2 would

It asks by ADS as a client would, with full states or, with --delta, differences, and accepts all \
it is sent: `oxds status` shows it among the clients. When the stream ends it says so on stderr, \
and asks again.

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
    /// The form of the changes on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: View,
    #[command(flatten)]
    source: source::Asking,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let source = args.source.source()?;
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        tokio::select! {
            _ = stop.next() => Ok(Exit::Success),
            ended = follow(args, &source) => ended,
        }
    })
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
