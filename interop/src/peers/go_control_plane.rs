//! A control plane on go-control-plane, for our own client side.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::config::Folder;
use crate::process::Process;
use crate::{Context, Fallible};

/// From start to listening.
const START: Duration = Duration::from_secs(10);

/// A running go-control-plane. It serves a folder, as `oxds serve` does.
#[derive(Debug)]
pub(crate) struct GoControlPlane {
    process: Process,
    /// Where ADS is served.
    pub(crate) grpc: SocketAddr,
}

impl GoControlPlane {
    /// Serves `folder` on a port of the system's choice.
    pub(crate) async fn serve(cx: &Context, folder: &Folder) -> Fallible<Self> {
        Self::serve_on(cx, folder, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Serves `folder` on a given address: the restart of a process that had it.
    pub(crate) async fn serve_on(
        cx: &Context,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        let program = &cx.peers.go_control_plane;
        Self::start(cx, "go-control-plane", program, folder, address).await
    }

    /// The same by the release that spoke API v2; its folder is one of [`config::in_v2`](crate::config::in_v2).
    pub(crate) async fn serve_v2_on(
        cx: &Context,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        let program = &cx.peers.go_control_plane_v2;
        Self::start(cx, "go-control-plane-v2", program, folder, address).await
    }

    async fn start(
        cx: &Context,
        name: &str,
        program: &Path,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        let mut command = Command::new(program);
        command.arg(folder.path()).arg(address.to_string());
        let mut process = Process::spawn(name, command, &cx.dir, |_| ())?;
        let grpc = process.line("grpc ", START).await?.parse()?;
        Ok(Self { process, grpc })
    }

    /// Waits for the next client, and returns its id and build version. Only the release that spoke v2 tells.
    pub(crate) async fn asked_by(&mut self, limit: Duration) -> Fallible<String> {
        self.process.line("node ", limit).await
    }

    /// The sums of all load reports so far for a cluster: issued, succeeded and failed. Only that release asks for them.
    pub(crate) fn load_of(&self, cluster: &str) -> Option<Vec<usize>> {
        let sums = self.process.last(&format!("load {cluster} "))?;
        sums.split(' ').map(|sum| sum.parse().ok()).collect()
    }

    /// Waits for the first NACK and returns its kind and reason.
    pub(crate) async fn nack(&mut self, limit: Duration) -> Fallible<String> {
        self.process.line("nack ", limit).await
    }

    /// The first line of what it prints of load reports that begins so, without that.
    pub(crate) async fn load_line(&mut self, prefix: &str, limit: Duration) -> Fallible<String> {
        self.process.line(prefix, limit).await
    }

    /// The reports of localities so far, as it prints them.
    pub(crate) fn loads(&self) -> Vec<String> {
        self.process.all("load ")
    }

    /// SIGKILL.
    pub(crate) async fn kill(self) -> Fallible {
        self.process.kill().await
    }
}
