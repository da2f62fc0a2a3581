//! Benchmarks of oxds against its peers, each peer measured in the same run.
//!
//! `bench/run` builds this program and calls it; one line per scenario comes out: id, ours, peer,
//! ratio, target. The program starts itself again in *roles* (a backend, a client, a control
//! plane), so that the measured process does one thing only.
//!
//! | scenario | module |
//! |---|---|
//! | R-1, R-2, R-9 … R-12: cost and latency of RPCs | `rpc` |
//! | R-3, R-4: a cluster of many endpoints | `endpoints` |
//! | R-5 … R-7: start-up, a control plane that dies, memory of a client | `control` |
//! | R-8: picks of each policy | `picks` |
//! | S-R1 … S-R3: TLS between services | `secured` |
//! | P-1 … P-13: changes pushed to clients | `push` |
//! | GB-1 … GB-16, but for GB-11: replicas on etcd | `push::replicas` |
//! | O-1, O-2: pages for operators | `push` |
//! | O-3, O-4: commands of operators on large configurations | `operator_commands` |
//! | F-1: time until a folder of YAML is served | `load` |
//! | F-2: time from a saved file to the client | `follow` |
//! | V-1: a versioned API checked | `api` |
//! | V-3: resources translated between v2 and v3 | `translate` |

mod api;
mod command_line;
mod control;
mod endpoints;
mod follow;
mod keys;
mod load;
mod memory;
mod operator_commands;
mod picks;
mod plan;
mod play;
mod program;
mod proxy;
mod push;
mod report;
mod roles;
mod rpc;
mod scenarios;
mod secured;
mod serve;
mod translate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use memory::LiveHeap;
use plan::Plan;
use scenarios::SCENARIOS;

/// Benchmarks of oxds against its peers.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios and print the table.
    Run(Plan),
    /// Play one part of a scenario in a process of its own.
    #[command(hide = true)]
    Role { json: String },
}

/// Runs the command of this process's arguments.
pub fn main(live_heap: LiveHeap) -> ExitCode {
    match Args::parse().command {
        Command::Role { json } => play::play(&json, live_heap),
        Command::Run(plan) => run(&plan),
    }
}

fn run(plan: &Plan) -> ExitCode {
    let mut table = report::Table::default();
    let mut failed = false;
    let wanted = SCENARIOS.iter().filter(|one| one.is_wanted(plan));
    for scenario in wanted {
        if let Err(error) = scenario.run(plan, &mut table) {
            table.note(&format!("{}: FAILED: {error}", scenario.ids.join(", ")));
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}
