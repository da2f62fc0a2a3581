//! A part, from the view of the scenario that started it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::processors::Processors;
use super::role::Role;
use crate::memory::{self, Footprint, Memory};

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
        Self::start_on(role.processors(), role)
    }

    /// The same on these processors.
    pub(crate) fn start_on(processors: Processors, role: &Role) -> Result<Self, String> {
        Self::spawn(&this_program()?, processors, &arguments(role)?)?.greeted()
    }

    /// Starts a part whose live heap is counted.
    pub(crate) fn start_counted(role: &Role) -> Result<Self, String> {
        let program = this_program()?.with_file_name("oxds-bench-counted");
        Self::spawn(&program, role.processors(), &arguments(role)?)?.greeted()
    }

    /// Starts a part that prints only its result.
    pub(crate) fn start_measuring(role: &Role) -> Result<Self, String> {
        Self::spawn(&this_program()?, role.processors(), &arguments(role)?)
    }

    /// Starts a peer's program, which follows the same conventions, and waits for its hello.
    pub(crate) fn start_program(program: &Path, arguments: &[String]) -> Result<Self, String> {
        Self::spawn(program, Processors::Alone, arguments)?.greeted()
    }

    /// Starts a peer's program that prints only its result, on these processors.
    pub(crate) fn start_program_measuring(
        program: &Path,
        processors: Processors,
        arguments: &[String],
    ) -> Result<Self, String> {
        Self::spawn(program, processors, arguments)
    }

    fn greeted(mut self) -> Result<Self, String> {
        self.hello = self.line()?;
        Ok(self)
    }

    fn spawn(program: &Path, processors: Processors, arguments: &[String]) -> Result<Self, String> {
        if !program.exists() {
            let program = program.display();
            return Err(format!("{program} does not exist: use bench/run"));
        }
        let mut child = Command::new("taskset")
            .args(["-c", processors.list()])
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
    pub(crate) fn send_line(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("a part without input")?;
        input
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| error.to_string())
    }

    /// Memory of the part's process.
    pub(crate) fn memory(&self) -> Result<Memory, String> {
        Memory::of(self.child.id())
    }

    /// Memory without garbage.
    pub(crate) fn footprint(&mut self) -> Result<Footprint, String> {
        self.send_line("heap")?;
        let line = self.answer()?;
        let live = match line.as_str() {
            "-" => None,
            number => Some(
                number
                    .parse()
                    .map_err(|_| format!("not a number: {number}"))?,
            ),
        };
        let resident = self.memory()?.resident;
        Ok(Footprint { resident, live })
    }

    /// Makes the resident memory the peak.
    pub(crate) fn forget_peak(&self) -> Result<(), String> {
        memory::forget_peak(self.child.id())
    }

    /// CPU time of the part's process, of threads that have ended, too, to 10 ms: for long times.
    pub(crate) fn process_cpu(&self) -> Result<Duration, String> {
        /// Milliseconds of a tick: Linux shows 100 per second on all its platforms of today.
        const TICK: u64 = 10;
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        // The name of the program, in parentheses, may have spaces. After it, user and system time are the 12th and
        // 13th field.
        let (_, fields) = stat.rsplit_once(") ").ok_or("no name in stat")?;
        let mut ticks = 0;
        for field in fields.split(' ').skip(11).take(2) {
            ticks += field
                .parse::<u64>()
                .map_err(|_| format!("{path}: {stat}"))?;
        }
        Ok(Duration::from_millis(ticks * TICK))
    }

    /// CPU time of the threads of the part's process that have not ended, as the kernel counts it: for programs that do
    /// not report it.
    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        let threads = format!("/proc/{}/task", self.child.id());
        let failed = |error: std::io::Error| format!("{threads}: {error}");
        let mut nanos = 0;
        for thread in std::fs::read_dir(&threads).map_err(failed)? {
            let path = thread.map_err(failed)?.path().join("schedstat");
            // A thread that has ended did not belong to the measured work.
            let Ok(times) = std::fs::read_to_string(&path) else {
                continue;
            };
            let on_cpu = times
                .split(' ')
                .next()
                .and_then(|text| text.parse::<u64>().ok());
            nanos += on_cpu.ok_or_else(|| format!("{}: {times}", path.display()))?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// User and system time that the part has used, in microseconds.
    pub(crate) fn cpu_micros(&mut self) -> Result<u64, String> {
        self.ask("cpu")
    }

    /// Number of calls that a backend has had.
    pub(crate) fn calls(&mut self) -> Result<u64, String> {
        self.ask("calls")
    }

    fn ask(&mut self, number: &str) -> Result<u64, String> {
        self.send_line(number)?;
        let line = self.answer()?;
        line.parse().map_err(|_| format!("not a number: {line}"))
    }

    /// Sends SIGTERM and waits for the end, while other tasks run.
    pub(crate) async fn terminate(mut self, limit: Duration) -> Result<(), String> {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &process]).status();
        if !sent.map_err(|error| error.to_string())?.success() {
            return Err(format!("cannot send SIGTERM to {process}"));
        }
        let deadline = Instant::now() + limit;
        while self
            .child
            .try_wait()
            .map_err(|error| error.to_string())?
            .is_none()
        {
            if Instant::now() > deadline {
                return Err(format!("not ended within {limit:?} of SIGTERM"));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
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

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| error.to_string())
}

fn arguments(role: &Role) -> Result<[String; 2], String> {
    let role = serde_json::to_string(role).map_err(|error| error.to_string())?;
    Ok(["role".to_owned(), role])
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has nothing to save and may end at any point.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
