//! The `oxds` binary: xDS control plane and tools.
//!
//! ```text
//!  arguments ─► cli ─► commands::{serve, status, get, watch, call, api, …} ─► exit code
//!                          │                         │
//!                       results: output (stdout)  logs: log (stderr)
//! ```
//!
//! A command is a module with its arguments and a `run` function. `run` returns an [`Exit`](exit::Exit),
//! or a [`Failure`](exit::Failure) with the error and its place. No other code ends the process.

mod cli;
mod commands;
mod exit;
mod log;
mod output;
mod progress;
mod signals;
mod table;
mod terminal;
mod unary;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let exit = cli.run().unwrap_or_else(|failure| {
        failure.report();
        failure.exit
    });
    log::flush();
    exit.into()
}
