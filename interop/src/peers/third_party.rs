//! Control planes of other projects, each over a folder as `oxds serve` is, with one command line and one output
//! format.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::process::Command;

use crate::config::Folder;
use crate::process::Process;
use crate::{Context, Fallible};

/// From start to listening: a JVM on a busy machine.
const START: Duration = Duration::from_secs(30);

/// Makes of control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThirdParty {
    /// go-control-plane, current.
    Go,
    /// The release that spoke API v2; its folder is one of [`config::in_v2`](crate::config::in_v2).
    GoV2,
    /// java-control-plane.
    Java,
}

/// A running control plane.
#[derive(Debug)]
pub(crate) struct ThirdPartyControlPlane {
    process: Process,
    /// Address of ADS.
    pub(crate) grpc: SocketAddr,
}

impl ThirdParty {
    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Go => "go_control_plane",
            Self::GoV2 => "go_control_plane_v2",
            Self::Java => "java_control_plane",
        }
    }

    fn command(self, cx: &Context) -> Command {
        match self {
            Self::Go => Command::new(&cx.programs.go.control_plane),
            Self::GoV2 => Command::new(&cx.programs.go.control_plane_v2),
            Self::Java => {
                let mut java = Command::new("java");
                let mut libraries = cx.programs.java.classes.clone().into_os_string();
                libraries.push(":");
                libraries.push(cx.programs.java.libraries.join("*"));
                java.arg("-cp").arg(libraries).arg("ControlPlane");
                java
            }
        }
    }
}

impl ThirdPartyControlPlane {
    /// Serves `folder` on an address that it can have again after its death.
    pub(crate) async fn serve(cx: &Context, make: ThirdParty, folder: &Folder) -> Fallible<Self> {
        Self::serve_on(cx, make, folder, cx.address()?).await
    }

    /// Serves `folder` on a given address, as a restarted process does.
    pub(crate) async fn serve_on(
        cx: &Context,
        make: ThirdParty,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        Self::serve_with(cx, make, folder, address, &[]).await
    }

    /// The same with more options; only [`ThirdParty::Go`] has some.
    pub(crate) async fn serve_with(
        cx: &Context,
        make: ThirdParty,
        folder: &Folder,
        address: SocketAddr,
        options: &[OsString],
    ) -> Fallible<Self> {
        let mut command = make.command(cx);
        command.args(options);
        command.arg(folder.path()).arg(address.to_string());
        let mut process = Process::spawn(make.name(), command, &cx.dir, |_| ())?;
        let grpc = process.line("grpc ", START).await?.parse()?;
        Ok(Self { process, grpc })
    }

    /// Waits for the next client, and returns its id and build version. Only the release that spoke v2 prints them.
    pub(crate) async fn asked_by(&mut self, limit: Duration) -> Fallible<String> {
        self.process.line("node ", limit).await
    }

    /// Sums of all load reports so far for a cluster: issued, succeeded and failed. Only the v2 release requests
    /// reports.
    pub(crate) fn load_of(&self, cluster: &str) -> Option<Vec<usize>> {
        let sums = self.process.last(&format!("load {cluster} "))?;
        sums.split(' ').map(|sum| sum.parse().ok()).collect()
    }

    /// Number of times that the served configuration has changed; the first is the initial folder.
    pub(crate) fn snapshots(&self) -> usize {
        self.process.all("snapshot ").len()
    }

    /// Waits for the first NACK and returns its resource type and reason.
    pub(crate) async fn nack(&mut self, limit: Duration) -> Fallible<String> {
        self.process.line("nack ", limit).await
    }

    /// Waits for a client with this name in its certificate. Only [`ThirdParty::Go`] prints it, and only over TLS.
    pub(crate) async fn identified(&mut self, name: &str, limit: Duration) -> Fallible {
        self.process
            .line(&format!("identity {name}"), limit)
            .await?;
        Ok(())
    }

    /// Rest of the first printed load-report line with this prefix. Only [`ThirdParty::Go`] prints them.
    pub(crate) async fn load_line(&mut self, prefix: &str, limit: Duration) -> Fallible<String> {
        self.process.line(prefix, limit).await
    }

    /// Locality reports so far, as printed.
    pub(crate) fn loads(&self) -> Vec<String> {
        self.process.all("load ")
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(self) -> Fallible {
        self.process.kill().await
    }
}
