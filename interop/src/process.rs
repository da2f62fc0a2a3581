//! A peer's process. Its output goes to a log file, its stdout can be awaited line by line, and it ends with its
//! handle.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::Fallible;
use crate::wait::until;

/// A running process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts `command` and logs both its streams to `dir/name.log`; `each` sees every stdout line.
    pub(crate) fn spawn(
        name: &str,
        mut command: Command,
        dir: &Path,
        mut each: impl FnMut(&str) + Send + 'static,
    ) -> Fallible<Self> {
        let path = dir.join(format!("{name}.log"));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path)?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                format!(
                    "{name}: cannot start {:?}: {e}",
                    command.as_std().get_program()
                )
            })?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        if let Some(stdout) = child.stdout.take() {
            let lines = Arc::clone(&lines);
            let mut log = tokio::fs::File::from_std(log);
            tokio::spawn(async move {
                let mut reader = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = reader.next_line().await {
                    each(&line);
                    let _ = log.write_all(format!("{line}\n").as_bytes()).await;
                    lines
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(line);
                }
                let _ = log.flush().await;
            });
        }
        Ok(Self {
            name: name.to_owned(),
            log: path,
            child,
            lines,
        })
    }

    /// Waits for a stdout line that begins with `prefix` and returns what follows it.
    pub(crate) async fn line(&mut self, prefix: &str, limit: Duration) -> Fallible<String> {
        let what = format!("{}: a line \"{prefix}…\"", self.name);
        // A process that has ended prints no more, but its last lines may be read after its end was seen.
        let mut looks_after_end = 0;
        until(&what, limit, async || {
            if let Some(found) = self.find(prefix) {
                return Ok(Some(Ok(found)));
            }
            let Err(ended) = self.running() else {
                return Ok(None);
            };
            looks_after_end += 1;
            let last_looks = 10;
            Ok((looks_after_end > last_looks)
                .then(|| Err(format!("{what}: {ended}; see {}", self.log.display()).into())))
        })
        .await?
    }

    /// The first stdout line so far that begins with `prefix`, without it.
    pub(crate) fn find(&self, prefix: &str) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .find_map(|line| line.strip_prefix(prefix))
            .map(|rest| rest.trim().to_owned())
    }

    /// The last such line.
    pub(crate) fn last(&self, prefix: &str) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lines
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix(prefix));
        last.map(|rest| rest.trim().to_owned())
    }

    /// All stdout lines so far that begin with `prefix`, without it.
    pub(crate) fn all(&self, prefix: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let rests = lines.iter().filter_map(|line| line.strip_prefix(prefix));
        rests.map(str::to_owned).collect()
    }

    /// Waits until its log, of both streams, has a line with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        let what = format!("{}: a log line with {texts:?}", self.name);
        until(&what, limit, async || {
            let log = String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned();
            let mut lines = log.lines();
            let found = lines.any(|line| texts.iter().all(|text| line.contains(text)));
            Ok(found.then_some(()))
        })
        .await
    }

    /// Returns an error if the process has ended by itself.
    pub(crate) fn running(&mut self) -> Fallible {
        match self.child.try_wait()? {
            Some(status) => Err(format!("{} ended: {status}", self.name).into()),
            None => Ok(()),
        }
    }

    /// Waits until the process ends by itself.
    pub(crate) async fn ends(&mut self, limit: Duration) -> Fallible<std::process::ExitStatus> {
        let ended = tokio::time::timeout(limit, self.child.wait()).await;
        Ok(ended.map_err(|_| format!("{}: not ended within {limit:?}", self.name))??)
    }

    /// Id of the process.
    pub(crate) fn id(&self) -> Fallible<u32> {
        let ended = || format!("{} has ended", self.name);
        Ok(self.child.id().ok_or_else(ended)?)
    }

    /// Stops the process, or continues it.
    pub(crate) async fn signal(&self, signal: Signal) -> Fallible {
        let mut command = Command::new("kill");
        command.args([signal.option(), &self.id()?.to_string()]);
        output(command).await.map(drop)
    }

    /// Sends SIGKILL and waits for the end; its port is free afterwards.
    pub(crate) async fn kill(mut self) -> Fallible {
        Ok(self.child.kill().await?)
    }
}

/// Signals beside SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The process stands still, and its sockets stay open.
    Stop,
    /// Continues a stopped process.
    Continue,
}

impl Signal {
    fn option(self) -> &'static str {
        match self {
            Self::Stop => "-STOP",
            Self::Continue => "-CONT",
        }
    }
}

/// Runs a command to its end and returns its stdout; an error contains its stderr.
pub(crate) async fn output(mut command: Command) -> Fallible<Vec<u8>> {
    let program = PathBuf::from(command.as_std().get_program());
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}\n{stderr}", program.display(), output.status).into())
}
