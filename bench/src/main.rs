//! Starts the benchmarks, with the allocator that users have.

use std::process::ExitCode;

fn main() -> ExitCode {
    oxds_bench::main(None)
}
