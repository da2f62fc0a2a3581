//! How both programs end.

use std::fmt::Display;
use std::pin::Pin;
use std::process::ExitCode;

/// Runs until `run` ends, which is told when a Ctrl-C comes. Why it did not start, or ended, goes to stderr; the exit codes
/// are 2 and 1.
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

/// Ready when the program is to stop.
pub type Stop = Pin<Box<dyn Future<Output = ()>>>;

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without the signal, it runs until it is killed.
        std::future::pending::<()>().await;
    }
}
