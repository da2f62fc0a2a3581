//! Start and end of both programs.

use std::fmt::Display;
use std::pin::Pin;
use std::process::ExitCode;

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
