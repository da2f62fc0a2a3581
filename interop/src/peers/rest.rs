//! A REST control plane in Python.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::process::Process;
use crate::{Context, Fallible};

/// From start to listening.
const START: Duration = Duration::from_secs(10);

/// A running `rest.py`.
#[derive(Debug)]
pub(crate) struct RestPlane {
    process: Process,
    pub(crate) http: SocketAddr,
}

impl RestPlane {
    /// Serves the JSON files of a folder.
    pub(crate) async fn serve(cx: &Context, folder: &Path) -> Fallible<Self> {
        Self::serve_with(cx, folder, &[]).await
    }

    /// The same over TLS: certificate, key, authority of clients, token.
    pub(crate) async fn serve_with(
        cx: &Context,
        folder: &Path,
        files: &[OsString],
    ) -> Fallible<Self> {
        let mut command = Command::new(&cx.programs.python.interpreter);
        command
            .arg(&cx.programs.python.rest)
            .arg(folder)
            .args(files);
        let mut process = Process::spawn("rest", command, &cx.dir, |_| ())?;
        let http = process.line("http ", START).await?.parse()?;
        Ok(Self { process, http })
    }

    /// Waits for a poll with this resource type, version, node and status.
    pub(crate) async fn polled(&mut self, poll: &str, limit: Duration) -> Fallible {
        self.process.line(&format!("poll {poll}"), limit).await?;
        Ok(())
    }
}
