//! A grpc-go backend that reports its load by ORCA.

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
    /// Address of the backend.
    pub(crate) address: SocketAddr,
}

impl GoBackend {
    /// Every call of this method fails; calls of other methods do not.
    pub(crate) const FAIL: &str = "/oxds.interop.Echo/Fail";

    /// Starts a backend on a port that the system chooses.
    pub(crate) async fn start(cx: &Context) -> Fallible<Self> {
        let command = Command::new(&cx.programs.go.backend);
        let mut process = Process::spawn("go-backend", command, &cx.dir, |_| ())?;
        let address = process.line("grpc ", START).await?.parse()?;
        Ok(Self {
            _process: process,
            address,
        })
    }
}
