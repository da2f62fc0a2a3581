//! Commands that are measured as whole processes, on all processors.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::memory::{Memory, mib};
use crate::roles::Processors;

/// A command, and the exit code that shows its success.
pub(crate) struct CommandLine<'a> {
    program: &'a Path,
    arguments: &'a [&'a str],
    expected: i32,
}

impl<'a> CommandLine<'a> {
    pub(crate) fn new(program: &'a Path, arguments: &'a [&'a str], expected: i32) -> Self {
        Self {
            program,
            arguments,
            expected,
        }
    }

    /// Starts the command in a folder. Its output is dropped.
    pub(crate) fn start(&self, folder: &Path) -> Result<Child, String> {
        let started = self.command(folder).spawn();
        started.map_err(|error| error.to_string())
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new("taskset");
        command
            .args(["-c", Processors::Both.list()])
            .arg(self.program)
            .args(self.arguments)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Waits until a started one ends, while other tasks run. Returns the time of the end.
    pub(crate) async fn end(&self, mut child: Child) -> Result<Instant, String> {
        let ended = tokio::task::spawn_blocking(move || (child.wait(), Instant::now()));
        let (status, at) = ended.await.map_err(|error| error.to_string())?;
        self.check(status.map_err(|error| error.to_string())?)?;
        Ok(at)
    }

    /// Milliseconds of one run.
    pub(crate) fn time(&self, folder: &Path) -> Result<f64, String> {
        let start = Instant::now();
        let status = self.start(folder)?.wait();
        let wall = start.elapsed().as_secs_f64() * 1e3;
        self.check(status.map_err(|error| error.to_string())?)?;
        Ok(wall)
    }

    /// Standard output of one run.
    pub(crate) fn output(&self, folder: &Path) -> Result<String, String> {
        let output = self.command(folder).stdout(Stdio::piped()).output();
        let output = output.map_err(|error| error.to_string())?;
        self.check(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Peak memory of one run, as far as a look each millisecond shows it.
    pub(crate) fn peak_mib(&self, folder: &Path) -> Result<f64, String> {
        let mut child = self.start(folder)?;
        let mut peak = 0;
        loop {
            // `taskset` becomes the program. A process that has just ended has no memory.
            if let Ok(memory) = Memory::of(child.id()) {
                peak = memory.peak;
            }
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                self.check(status)?;
                return Ok(mib(peak));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn check(&self, status: ExitStatus) -> Result<(), String> {
        if status.code() == Some(self.expected) {
            Ok(())
        } else {
            Err(format!(
                "{} {:?}: {status}, expected exit code {}",
                self.program.display(),
                self.arguments,
                self.expected
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_with_another_exit_code_is_an_error() {
        let command = CommandLine::new(Path::new("oxds"), &["wait"], 0);
        assert_eq!(command.check(ExitStatus::default()), Ok(()));
        let command = CommandLine::new(Path::new("oxds"), &["wait"], 1);
        let error = command.check(ExitStatus::default()).unwrap_err();
        assert!(error.contains("expected exit code 1"), "{error}");
    }
}
