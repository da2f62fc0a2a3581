//! `oxds demo`: everything in one process.
//!
//! ```text
//!  folder ─► Watched store ─► server ─ ADS ─► channel per service ─► echo backends
//!               │ plan                             │ who answered
//!               └──────────► table, verdict ◄──────┘ (tally)
//! ```

mod folder;
mod plan;
mod screen;
mod stage;
mod store;
mod table;
mod tally;
mod traffic;
mod verdict;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use stage::Demo;

use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// How long it runs when nobody looks and nobody said.
const WITHOUT_TERMINAL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  oxds demo                     # on a terminal: a live table, until Ctrl-C
  oxds demo --for 10s           # then a summary; exit code 0 if the traffic was as configured
  oxds demo ./my-shop           # over a folder of your own with endpoints on this machine

It serves the folder, starts a small backend for every endpoint in it, and calls every listener in \
it through an xds:/// channel. Edit a file: the traffic follows within a second.

Without DIR it takes examples/shop of the repository you are in, else writes a copy of it to \
./oxds-demo.

Exit codes: 0 the calls were spread as the files say, within what chance allows; 1 they were not; \
2 the folder cannot be used.";

/// See it all at work: control plane, backends and client in one process
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder to serve [default: examples/shop, or a copy of it]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Stop after so long, and say whether the traffic was as configured [default without a
    /// terminal: 10s]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let live = std::io::stdout().is_terminal();
    let limit = match args.duration {
        None if live => None,
        None => Some(WITHOUT_TERMINAL),
        limit => limit,
    };
    let folder = folder::find(args.dir)?;
    runtime()?.block_on(async {
        let mut demo = Demo::start(folder).await?;
        let mut output = Output::new();
        demo.watch(&mut output, live, limit).await?;
        let exit = match limit {
            Some(_) => demo.conclude(&mut output, live)?,
            None => Exit::Success,
        };
        demo.end().await;
        Ok(exit)
    })
}
