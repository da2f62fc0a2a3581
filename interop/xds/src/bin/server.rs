//! `xds-interop-server`: see `--help`.
//!
//! Prints `port PORT` and `maintenance PORT` once it listens.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program speaks to who started it"
)]

use std::process::ExitCode;

use clap::Parser as _;
use oxds_interop_xds::server::{Flags, Server};

#[tokio::main]
async fn main() -> ExitCode {
    let server = match Server::bind(Flags::parse()).await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    println!("port {}", server.port());
    println!("maintenance {}", server.maintenance_port());
    tokio::select! {
        () = server.serve() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    ExitCode::SUCCESS
}
