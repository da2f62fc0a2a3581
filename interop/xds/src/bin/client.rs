//! `xds-interop-client`: see `--help`.
//!
//! Prints `stats PORT` once it listens.
#![allow(clippy::print_stdout, reason = "a program speaks to who started it")]

use std::process::ExitCode;

use clap::Parser as _;
use oxds_interop_xds::client::{Client, Flags};
use oxds_interop_xds::program;

#[tokio::main]
async fn main() -> ExitCode {
    program::log();
    program::run(
        Client::bind(Flags::parse()).await,
        async |client: Client, stop| {
            println!("stats {}", client.port());
            client.run(stop).await
        },
    )
    .await
}
