//! Scenarios between oxds and real peers. `interop/run` installs the peers and starts this runner.
//!
//! ```text
//! oxds-interop OXDS INTEROP_DIR [FILTER]      OXDS: the binary; FILTER: part of a scenario's name
//! ```
//!
//! A few scenarios at a time: each has its own folder, processes and ports, prints one line when it ends, and
//! leaves its folder behind only if it failed. Nothing is skipped; what cannot run fails.
#![allow(
    clippy::print_stdout,
    reason = "the report is the purpose of this program"
)]

mod backend;
mod calls;
mod certificates;
mod config;
mod context;
mod fallible;
mod gate;
mod http;
mod peers;
mod process;
mod programs;
mod raw;
mod scenarios;
mod subscriber;
mod wait;
mod wire;

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use programs::Programs;
use scenarios::Scenario;
use tokio::task::{JoinSet, LocalSet};
pub(crate) use {context::Context, fallible::Fallible};

/// Scenarios at once: most of one is waiting.
const AT_ONCE: usize = 4;
/// Number of log lines that a failure shows.
const TAIL: usize = 25;
/// Number of characters of each line.
const WIDTH: usize = 300;

#[tokio::main]
async fn main() -> ExitCode {
    tokio::select! {
        outcome = run() => outcome.unwrap_or_else(|error| {
            println!("FAIL {error}");
            ExitCode::FAILURE
        }),
        // Dropping the scenario kills its processes.
        () = interrupted() => ExitCode::from(130),
    }
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

async fn run() -> Fallible<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let (Some(oxds), Some(interop)) = (arguments.next(), arguments.next()) else {
        return Err("usage: oxds-interop OXDS INTEROP_DIR [FILTER]".into());
    };
    let filter = arguments.next().unwrap_or_default();
    let programs = Arc::new(Programs::find(Path::new(&oxds), Path::new(&interop))?);
    let chosen: Vec<_> = scenarios::all()
        .into_iter()
        .filter(|s| s.name.contains(&filter))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no scenario matches {filter:?}").into());
    }
    let (passed, failed) = LocalSet::new().run_until(all(chosen, &programs)).await?;
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs them, a few at a time, and counts how many passed and failed.
async fn all(scenarios: Vec<Scenario>, programs: &Arc<Programs>) -> Fallible<(usize, usize)> {
    let queue = Rc::new(RefCell::new(scenarios.into_iter()));
    let mut workers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (queue, programs) = (Rc::clone(&queue), Arc::clone(programs));
        workers.spawn_local(async move {
            let (mut passed, mut failed) = (0, 0);
            loop {
                let next = queue.borrow_mut().next();
                let Some(scenario) = next else {
                    return Fallible::Ok((passed, failed));
                };
                if one(&scenario, &programs).await? {
                    passed += 1;
                } else {
                    failed += 1;
                }
            }
        });
    }
    let (mut passed, mut failed) = (0, 0);
    while let Some(ended) = workers.join_next().await {
        let counts = ended??;
        passed += counts.0;
        failed += counts.1;
    }
    Ok((passed, failed))
}

/// Runs one scenario and prints its line.
async fn one(scenario: &Scenario, programs: &Arc<Programs>) -> Fallible<bool> {
    let dir = tempfile::Builder::new().prefix("oxds-interop-").tempdir()?;
    let context = Context::new(Arc::clone(programs), dir.path().to_owned());
    let started = Instant::now();
    let ended = tokio::time::timeout(scenario.limit, (scenario.run)(context)).await;
    let seconds = started.elapsed().as_secs_f32();
    let error = match ended {
        Ok(Ok(())) => {
            println!("ok   {:<52} {seconds:5.1}s", scenario.name);
            return Ok(true);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("hung for {:?}", scenario.limit),
    };
    println!("FAIL {:<52} {seconds:5.1}s\n     {error}", scenario.name);
    let kept = dir.keep();
    show_logs(&kept)?;
    println!("     all of it: {}", kept.display());
    Ok(false)
}

/// The last lines of each log in the folder.
fn show_logs(dir: &Path) -> Fallible {
    let mut logs: Vec<_> = std::fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    for log in logs {
        println!("     --- {}", log.file_name().unwrap_or_default().display());
        let bytes = std::fs::read(&log)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            println!("     {}", line.chars().take(WIDTH).collect::<String>());
        }
    }
    Ok(())
}
