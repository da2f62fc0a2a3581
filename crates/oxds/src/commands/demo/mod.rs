//! `oxds demo`: control plane, backends and clients in one process.
//!
//! ```text
//!  folder ─► DemoStore ─► server ─ ADS ─► channel per service ─► echo backends
//!               │ plan                         │ endpoint of each call
//!               └───────► table, verdict ◄─────┘ (tally)
//! ```

mod folder;
mod plan;
mod runner;
mod screen;
mod store;
mod table;
mod tally;
mod traffic;
mod verdict;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use runner::Demo;

use super::{duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Duration without a terminal and without `--for`.
const WITHOUT_TERMINAL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  oxds demo                     # on a terminal: a live table, until Ctrl-C
  oxds demo --for 10s           # stop after 10 s with a summary
  oxds demo ./my-shop           # your own folder, with endpoints on this machine

It serves the folder, starts a small backend for every endpoint in it, and calls every API listener in \
it through an xds:/// channel. When you edit a file, the traffic follows within a second.

Without DIR it uses examples/shop of the current repository, or else writes a copy of it to \
./oxds-demo.

Exit codes: 0 no call failed and the traffic matches the configuration, within statistical limits; \
1 it does not; 2 the folder cannot be used.";

/// Run a control plane, backends and clients in one process
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to serve [default: examples/shop, or a copy of it]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Stop after this time and compare the traffic with the configuration [default without a
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
