//! How both programs end.

use std::fmt::Display;
use std::process::ExitCode;

/// Runs until `run` ends or a Ctrl-C comes. Why it did not start, or ended, goes to stderr; the exit codes are 2 and 1.
#[allow(clippy::print_stderr, reason = "a program speaks to who started it")]
pub async fn run<P, E: Display>(
    started: Result<P, impl Display>,
    run: impl AsyncFnOnce(P) -> Result<(), E>,
) -> ExitCode {
    let program = match started {
        Ok(program) => program,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    tokio::select! {
        ended = run(program) => match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        _ = tokio::signal::ctrl_c() => ExitCode::SUCCESS,
    }
}
