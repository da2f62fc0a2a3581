//! A backend on grpc-go, which says what it carries.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::process::Command;

use crate::process::Process;
use crate::{Context, Fallible};

/// From start to listening.
const START: Duration = Duration::from_secs(10);

/// A running backend.
#[derive(Debug)]
pub(crate) struct GoBackend {
    _process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl GoBackend {
    /// Every call of this method fails; those of others do not.
    pub(crate) const FAIL: &str = "/oxds.interop.Echo/Fail";

    /// A backend on a port of the system's choice.
    pub(crate) async fn start(cx: &Context) -> Fallible<Self> {
        let command = Command::new(&cx.peers.go_backend);
        let mut process = Process::spawn("go-backend", command, &cx.dir, |_| ())?;
        let address = process.line("grpc ", START).await?.parse()?;
        Ok(Self {
            _process: process,
            address,
        })
    }
}
