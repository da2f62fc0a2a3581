//! `xds-interop-client`: see `--help`.
//!
//! Prints `stats PORT` once it listens.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program speaks to who started it"
)]

use std::process::ExitCode;

use clap::Parser as _;
use oxds_interop_xds::client::{Client, Flags};

#[tokio::main]
async fn main() -> ExitCode {
    let client = match Client::bind(Flags::parse()).await {
        Ok(client) => client,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    println!("stats {}", client.port());
    tokio::select! {
        ended = client.run() => match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        _ = tokio::signal::ctrl_c() => ExitCode::SUCCESS,
    }
}
