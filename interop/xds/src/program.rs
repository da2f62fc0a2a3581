//! Start, log and end of the programs.

use std::fmt::Display;
use std::io::stderr;
use std::pin::Pin;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

/// Logs to stderr by `RUST_LOG`, or warnings without it. Stdout has the lines that drivers look for.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(false)
        .init();
}

/// Runs until `run` ends; `run` gets a future that resolves at Ctrl-C. A start failure exits with 2, a later failure
/// with 1; both print the reason to stderr.
#[allow(clippy::print_stderr, reason = "a program speaks to who started it")]
pub async fn run<P, E: Display>(
    started: Result<P, impl Display>,
    run: impl AsyncFnOnce(P, Stop) -> Result<(), E>,
) -> ExitCode {
    let program = match started {
        Ok(program) => program,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match run(program, Box::pin(interrupted())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Resolves when the program must stop.
pub type Stop = Pin<Box<dyn Future<Output = ()>>>;

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a signal handler, it runs until it is killed.
        std::future::pending::<()>().await;
    }
}
