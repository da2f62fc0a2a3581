//! `oxds` itself, run as an operator runs it: by its command line.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::backend::METHOD;
use crate::calls::Counts;
use crate::config::{Folder, LISTENER};
use crate::peers::clock::Clock;
use crate::process::{Process, Signal, output};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible, http};

/// From start to listening.
const START: Duration = Duration::from_secs(30);

/// A running `oxds serve`.
#[derive(Debug)]
pub(crate) struct Oxds {
    process: Process,
    /// Address of ADS.
    pub(crate) grpc: SocketAddr,
    /// Address of the status page.
    pub(crate) http: SocketAddr,
}

impl Oxds {
    /// Serves `folder` on addresses that it can have again after its death.
    pub(crate) async fn serve(cx: &Context, folder: &Folder) -> Fallible<Self> {
        Self::serve_on(cx, folder, cx.address()?, cx.address()?).await
    }

    /// The same, and writes the served resources into `files`.
    pub(crate) async fn serve_and_write(
        cx: &Context,
        folder: &Folder,
        files: &Path,
    ) -> Fallible<Self> {
        Self::start(
            cx,
            folder,
            cx.address()?,
            cx.address()?,
            &["--files".as_ref(), files.as_os_str()],
        )
        .await
    }

    /// Serves `folder` on the given addresses, with more options.
    pub(crate) async fn serve_with(
        cx: &Context,
        folder: &Folder,
        grpc: SocketAddr,
        options: &[OsString],
    ) -> Fallible<Self> {
        let options: Vec<_> = options.iter().map(OsString::as_os_str).collect();
        Self::start(cx, folder, grpc, cx.address()?, &options).await
    }

    /// Serves `folder` on given addresses, as a restarted process does.
    pub(crate) async fn serve_on(
        cx: &Context,
        folder: &Folder,
        grpc: SocketAddr,
        http: SocketAddr,
    ) -> Fallible<Self> {
        Self::start(cx, folder, grpc, http, &[]).await
    }

    async fn start(
        cx: &Context,
        folder: &Folder,
        grpc: SocketAddr,
        http: SocketAddr,
        more: &[&OsStr],
    ) -> Fallible<Self> {
        let mut command = Command::new(&cx.programs.oxds);
        command.arg("serve").arg(folder.path());
        command.args(more);
        Self::spawn(cx, "oxds", command, (grpc, http)).await
    }

    async fn spawn(
        cx: &Context,
        name: &str,
        mut command: Command,
        (grpc, http): (SocketAddr, SocketAddr),
    ) -> Fallible<Self> {
        command.args(["--grpc", &grpc.to_string(), "--http", &http.to_string()]);
        command.env("RUST_LOG", "info,oxds=debug");
        let mut process = Process::spawn(name, command, &cx.dir, |_| ())?;
        let grpc = process.line("grpc ", START).await?.parse()?;
        let http = process.line("http ", START).await?.parse()?;
        Ok(Self {
            process,
            grpc,
            http,
        })
    }

    /// Runs `oxds serve` with these arguments on given addresses, with a log of this name, and with a clock of the
    /// scenario, if given.
    pub(crate) async fn serve_as(
        cx: &Context,
        name: &str,
        arguments: &[OsString],
        addresses: (SocketAddr, SocketAddr),
        clock: Option<&Clock>,
    ) -> Fallible<Self> {
        let mut command = Command::new(&cx.programs.oxds);
        command.arg("serve").args(arguments);
        if let Some(clock) = clock {
            clock.rule(&mut command);
        }
        Self::spawn(cx, name, command, addresses).await
    }

    /// Waits for a line of its log with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        self.process.logs(texts, limit).await
    }

    /// Stops the process, or continues it.
    pub(crate) async fn signal(&self, signal: Signal) -> Fallible {
        self.process.signal(signal).await
    }

    /// Sends SIGKILL, as a crash of a control plane.
    pub(crate) async fn kill(self) -> Fallible {
        self.process.kill().await
    }

    /// Waits until `/status.json` shows that a client NACKed this resource, with this text among its reasons.
    pub(crate) async fn reports_rejection(
        &self,
        resource: &str,
        reason: &str,
        limit: Duration,
    ) -> Fallible {
        let what = format!("the rejection of {resource} in /status.json");
        until(&what, limit, async || {
            let found = self.rejections().await?;
            let wanted =
                |(name, text): &(String, String)| name == resource && text.contains(reason);
            if found.iter().any(wanted) {
                Ok(Some(()))
            } else {
                Err(format!("{found:?}").into())
            }
        })
        .await
    }

    /// Waits until `/status.json` shows that clients NACKed this resource and no other, and that none is isolated.
    pub(crate) async fn reports_only_rejection(&self, resource: &str, limit: Duration) -> Fallible {
        let what = format!("the rejection of {resource} alone in /status.json");
        until(&what, limit, async || {
            let found = self.rejections().await?;
            let page = http::get(self.http, "/status.json").await?;
            let status: Value = serde_json::from_slice(&page)?;
            let mut kinds = items(&status["nodes"]).flat_map(|node| items(&node["types"]));
            let isolating = kinds.any(|kind| !kind["isolating"].is_null());
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            if names == [resource] && !isolating {
                Ok(Some(()))
            } else {
                Err(format!("{found:?}, isolating: {isolating}").into())
            }
        })
        .await
    }

    /// Waits until `/status.json` shows that the client with this id has accepted everything.
    pub(crate) async fn reports_in_sync(&self, node: &str, limit: Duration) -> Fallible {
        until("the node in /status.json", limit, async || {
            let page = http::get(self.http, "/status.json").await?;
            let status: Value = serde_json::from_slice(&page)?;
            let found = items(&status["nodes"])
                .any(|found| found["id"] == node && found["in_sync"] == true);
            Ok(found.then_some(()))
        })
        .await
    }

    /// Waits until `/status.json` shows no NACK.
    pub(crate) async fn reports_no_rejection(&self, limit: Duration) -> Fallible {
        until("no rejection in /status.json", limit, async || {
            let found = self.rejections().await?;
            if found.is_empty() {
                Ok(Some(()))
            } else {
                Err(format!("{found:?}").into())
            }
        })
        .await
    }

    /// Name and reason of every NACKed resource (`docs/status-json.md`).
    /// Returns the resources that `/status.json` shows as NACKed, with the reasons.
    pub(crate) async fn nacks(&self) -> Fallible<BTreeMap<String, String>> {
        Ok(self.rejections().await?.into_iter().collect())
    }

    async fn rejections(&self) -> Fallible<Vec<(String, String)>> {
        let page = http::get(self.http, "/status.json").await?;
        let status: Value = serde_json::from_slice(&page)?;
        let kinds = items(&status["nodes"]).flat_map(|node| items(&node["types"]));
        let rejected = kinds.flat_map(|kind| items(&kind["nacked"]));
        Ok(rejected
            .map(|r| (text(&r["name"]), text(&r["reason"])))
            .collect())
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Report of `oxds call`.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl Report {
    /// Calls answered, by endpoint address, and messages of the failed calls.
    pub(crate) fn counts(&self) -> Counts {
        let number = |value: &Value| {
            value
                .as_u64()
                .map_or(0, |n| usize::try_from(n).unwrap_or(0))
        };
        let mut counts = Counts::default();
        for endpoint in items(&self.0["endpoints"]) {
            *counts
                .by_backend
                .entry(text(&endpoint["address"]))
                .or_default() += number(&endpoint["ok"]);
        }
        for failure in items(&self.0["failures"]) {
            let calls = number(&failure["calls"]);
            counts
                .failures
                .extend((0..calls).map(|_| text(&failure["message"])));
        }
        counts
    }
}

/// Makes `n` calls with `oxds call`.
pub(crate) async fn call(cx: &Context, bootstrap: &Path, n: usize) -> Fallible<Report> {
    let mut command = Command::new(&cx.programs.oxds);
    command.args([
        "call",
        &format!("xds:///{LISTENER}"),
        METHOD,
        "--format",
        "json",
    ]);
    command.args([
        "-n",
        &n.to_string(),
        "--concurrency",
        "4",
        "--timeout",
        "15s",
    ]);
    command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
    Ok(Report(serde_json::from_slice(&output(command).await?)?))
}

/// Output of `oxds csds` for a client in one format, and its exit code.
pub(crate) async fn csds(cx: &Context, client: SocketAddr, form: &str) -> Fallible<(String, i32)> {
    let mut command = Command::new(&cx.programs.oxds);
    command.args(["csds", &client.to_string(), "--output", form]);
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let code = output.status.code().ok_or("oxds csds was killed")?;
    Ok((String::from_utf8(output.stdout)?, code))
}

/// The two bootstrap files that `oxds bootstrap` prints.
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
    bootstrap_of(cx, kind, server, "interop-1").await
}

/// The same for a given node id.
pub(crate) async fn bootstrap_of(
    cx: &Context,
    kind: Bootstrap,
    server: SocketAddr,
    node_id: &str,
) -> Fallible<PathBuf> {
    bootstrap_with(cx, kind, server, node_id, None).await
}

/// The same with the certificates in this folder.
pub(crate) async fn bootstrap_with(
    cx: &Context,
    kind: Bootstrap,
    server: SocketAddr,
    node_id: &str,
    certs: Option<&Path>,
) -> Fallible<PathBuf> {
    let mut command = Command::new(&cx.programs.oxds);
    command.arg("bootstrap");
    command.arg(match kind {
        Bootstrap::Grpc => "grpc",
        Bootstrap::Envoy(_) => "envoy",
    });
    command.args([
        "--server",
        &server.to_string(),
        "--node-id",
        node_id,
        "--cluster",
        "interop",
    ]);
    if let Bootstrap::Envoy(Protocol::Delta) = kind {
        command.arg("--delta");
    }
    if let Some(certs) = certs {
        command.arg("--certs").arg(certs);
    }
    let path = cx.dir.join(format!("{node_id}.bootstrap.yaml"));
    std::fs::write(&path, output(command).await?)?;
    Ok(path)
}
