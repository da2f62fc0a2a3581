//! `oxds` itself, run as an operator runs it: by its command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::config::Folder;
use crate::process::{Process, output};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible, http};

/// From start to listening.
const START: Duration = Duration::from_secs(10);

/// A running `oxds serve`.
#[derive(Debug)]
pub(crate) struct Oxds {
    process: Process,
    /// Where ADS is served.
    pub(crate) grpc: SocketAddr,
    /// Where the status page is.
    pub(crate) http: SocketAddr,
}

impl Oxds {
    /// Serves `folder` on ports of the system's choice.
    pub(crate) async fn serve(cx: &Context, folder: &Folder) -> Fallible<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::serve_on(cx, folder, any, any).await
    }

    /// Serves `folder` on given addresses: the restart of a process that had them.
    pub(crate) async fn serve_on(
        cx: &Context,
        folder: &Folder,
        grpc: SocketAddr,
        http: SocketAddr,
    ) -> Fallible<Self> {
        let mut command = Command::new(&cx.peers.oxds);
        command.arg("serve").arg(folder.path());
        command.args(["--grpc", &grpc.to_string(), "--http", &http.to_string()]);
        command.env("RUST_LOG", "info,oxds=debug");
        let mut process = Process::spawn("oxds", command, &cx.dir, |_| ())?;
        let grpc = process.line("grpc ", START).await?.parse()?;
        let http = process.line("http ", START).await?.parse()?;
        Ok(Self {
            process,
            grpc,
            http,
        })
    }

    /// SIGKILL: the death of a control plane.
    pub(crate) async fn kill(self) -> Fallible {
        self.process.kill().await
    }

    /// Waits until `/status.json` holds each of these texts.
    pub(crate) async fn reports(&self, texts: &[&str], limit: Duration) -> Fallible {
        until(&format!("{texts:?} in /status.json"), limit, async || {
            let status = self.status().await?;
            if texts.iter().all(|text| mentions(&status, text)) {
                return Ok(Some(()));
            }
            Err(status.to_string().into())
        })
        .await
    }

    /// Waits until `/status.json` does not hold this text.
    pub(crate) async fn reports_no(&self, text: &str, limit: Duration) -> Fallible {
        until(&format!("no {text:?} in /status.json"), limit, async || {
            let status = self.status().await?;
            if mentions(&status, text) {
                Err(status.to_string().into())
            } else {
                Ok(Some(()))
            }
        })
        .await
    }

    async fn status(&self) -> Fallible<Value> {
        Ok(serde_json::from_slice(
            &http::get(self.http, "/status.json").await?,
        )?)
    }
}

/// Whether any string of the document contains `text`.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(fields) => fields
            .iter()
            .any(|(k, v)| k.contains(text) || mentions(v, text)),
        _ => false,
    }
}

/// Which of the two bootstrap files to print.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bootstrap {
    Grpc,
    Envoy(Protocol),
}

/// Writes the file that `oxds bootstrap` prints for `server` into the scenario's folder.
pub(crate) async fn bootstrap(
    cx: &Context,
    kind: Bootstrap,
    server: SocketAddr,
) -> Fallible<PathBuf> {
    let mut command = Command::new(&cx.peers.oxds);
    command.arg("bootstrap");
    command.arg(match kind {
        Bootstrap::Grpc => "grpc",
        Bootstrap::Envoy(_) => "envoy",
    });
    command.args([
        "--server",
        &server.to_string(),
        "--node-id",
        "interop-1",
        "--cluster",
        "interop",
    ]);
    if let Bootstrap::Envoy(Protocol::Delta) = kind {
        command.arg("--delta");
    }
    let path = cx.dir.join("bootstrap.yaml");
    std::fs::write(&path, output(command).await?)?;
    Ok(path)
}
