//! A part, from the view of the scenario that started it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;

use super::Role;
use crate::memory::{self, Memory};

/// A running part; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    child: Child,
    output: BufReader<ChildStdout>,
    hello: String,
}

impl Part {
    /// Starts a part and waits for its hello.
    pub(crate) fn start(role: &Role) -> Result<Self, String> {
        let mut part = Self::start_measuring(role)?;
        part.hello = part.line()?;
        Ok(part)
    }

    /// Starts a part that prints only its result.
    pub(crate) fn start_measuring(role: &Role) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let role_as_json = serde_json::to_string(role).map_err(|error| error.to_string())?;
        let arguments = ["role".to_owned(), role_as_json];
        Self::spawn(&program, role.processors(), &arguments)
    }

    /// Starts a peer's program, which follows the same conventions, and waits for its hello.
    pub(crate) fn start_program(program: &Path, arguments: &[String]) -> Result<Self, String> {
        let mut part = Self::spawn(program, "1", arguments)?;
        part.hello = part.line()?;
        Ok(part)
    }

    fn spawn(program: &Path, processors: &str, arguments: &[String]) -> Result<Self, String> {
        let mut child = Command::new("taskset")
            .args(["-c", processors])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a part without output")?;
        Ok(Self {
            child,
            output: BufReader::new(output),
            hello: String::new(),
        })
    }

    /// The part's first line.
    pub(crate) fn hello(&self) -> &str {
        &self.hello
    }

    /// Writes a line to the part.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("a part without input")?;
        input
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| error.to_string())
    }

    /// Memory of the part's process.
    pub(crate) fn memory(&self) -> Result<Memory, String> {
        Memory::of(self.child.id())
    }

    /// Makes the resident memory the peak.
    pub(crate) fn forget_peak(&self) -> Result<(), String> {
        memory::forget_peak(self.child.id())
    }

    /// User and system time that the part has used, in microseconds.
    pub(crate) fn cpu_micros(&mut self) -> Result<u64, String> {
        self.tell("cpu")?;
        let line = self.answer()?;
        line.parse().map_err(|_| format!("not a number: {line}"))
    }

    /// Reads the part's result and lets it end.
    pub(crate) fn finish<T: DeserializeOwned>(mut self) -> Result<T, String> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }

    /// Returns the part's answer to the last line.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        self.line()
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        match line.trim() {
            "" => Err("a part ended without output".to_owned()),
            line if line.starts_with("error: ") => Err(line.to_owned()),
            line => Ok(line.to_owned()),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has nothing to save and may end at any point.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
