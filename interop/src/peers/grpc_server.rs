//! An xDS-enabled server: gRPC C-core, through Python.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::backend::METHOD;
use crate::process::Process;
use crate::{Context, Fallible};

/// From start to waiting for its listener.
const START: Duration = Duration::from_secs(30);

/// A server that listens once the control plane has a listener for it.
#[derive(Debug)]
pub(crate) struct GrpcServer {
    process: Process,
    /// Address on which it listens once it has a listener.
    pub(crate) address: SocketAddr,
}

impl GrpcServer {
    /// Starts a server that answers [`METHOD`] with `name`.
    pub(crate) async fn start(cx: &Context, bootstrap: &Path, name: &str) -> Fallible<Self> {
        let address = free_address()?;
        let mut command = Command::new(&cx.peers.python);
        command.arg(&cx.peers.python_server);
        command.args([&address.to_string(), METHOD, name]);
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        let mut process = Process::spawn("grpc_server", command, &cx.dir, |_| ())?;
        process.line("started", START).await?;
        Ok(Self { process, address })
    }

    /// Returns an error if the process has ended by itself.
    pub(crate) fn running(&mut self) -> Fallible {
        self.process.running()
    }
}

/// Reserves a port: the name of a listener contains the port, so it must be known before the server binds it.
pub(super) fn free_address() -> Fallible<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}
