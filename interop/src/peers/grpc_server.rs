//! xDS-enabled servers: gRPC C-core, through Python, grpc-go, and `XdsServer`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::backend::METHOD;
use crate::process::Process;
use crate::{Context, Fallible};

/// From start to waiting for its listener.
const START: Duration = Duration::from_secs(30);

/// Makes of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMake {
    /// C-core, through Python.
    Core,
    /// grpc-go.
    Go,
    /// `XdsServer`.
    Oxds,
}

impl ServerMake {
    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Core => "grpc_core",
            Self::Go => "grpc_go",
            Self::Oxds => "oxds",
        }
    }

    fn command(self, cx: &Context) -> Command {
        let mut command = match self {
            Self::Core => {
                let mut command = Command::new(&cx.programs.python.interpreter);
                command.arg(&cx.programs.python.server);
                command
            }
            Self::Go => Command::new(&cx.programs.go.server),
            Self::Oxds => Command::new(&cx.programs.echo_server),
        };
        // Logs with the handshakes that fail, and the calls that XdsServer denies.
        command
            .env("GRPC_VERBOSITY", "INFO")
            .env("GRPC_GO_LOG_SEVERITY_LEVEL", "info")
            .env("RUST_LOG", "info,oxds::grpc_server=debug");
        command
    }
}

/// A server that listens once the control plane has a listener for it.
#[derive(Debug)]
pub(crate) struct GrpcServer {
    process: Process,
    /// Address on which it listens once it has a listener.
    pub(crate) address: SocketAddr,
}

impl GrpcServer {
    /// Starts a server that answers with `name`: C-core's each call of [`METHOD`], the others each call.
    pub(crate) async fn start(
        cx: &Context,
        make: ServerMake,
        bootstrap: &Path,
        name: &str,
    ) -> Fallible<Self> {
        // The name of a listener contains the port, so it must be known before the server binds it.
        let address = cx.address()?;
        let mut command = make.command(cx);
        command.args([&address.to_string(), METHOD, name]);
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        let mut process = Process::spawn(&format!("server-{name}"), command, &cx.dir, |_| ())?;
        process.line("started", START).await?;
        Ok(Self { process, address })
    }

    /// Waits until a server of grpc-go, or an `XdsServer`, serves.
    pub(crate) async fn serving(&mut self, limit: Duration) -> Fallible {
        self.process.line("mode serving", limit).await?;
        Ok(())
    }

    /// Waits until its log has a line with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        self.process.logs(texts, limit).await
    }

    /// Returns an error if the process has ended by itself.
    pub(crate) fn running(&mut self) -> Fallible {
        self.process.running()
    }
}
