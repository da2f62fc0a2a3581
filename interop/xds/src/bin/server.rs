//! `xds-interop-server`: see `--help`.
//!
//! Prints `port PORT` and `maintenance PORT` once it listens.
#![allow(clippy::print_stdout, reason = "a program speaks to who started it")]

use std::convert::Infallible;
use std::process::ExitCode;

use clap::Parser as _;
use oxds_interop_xds::program;
use oxds_interop_xds::server::{Flags, Server};

#[tokio::main]
async fn main() -> ExitCode {
    program::log();
    program::run(
        Server::bind(Flags::parse()).await,
        async |server: Server, stop| {
            println!("port {}", server.port());
            println!("maintenance {}", server.maintenance_port());
            tokio::select! {
                () = server.serve() => {}
                () = stop => {}
            }
            Ok::<(), Infallible>(())
        },
    )
    .await
}
