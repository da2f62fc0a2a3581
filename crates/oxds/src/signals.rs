//! Signals from the operator.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// SIGINT and SIGTERM, which request an orderly stop.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Starts to listen. From now on the signals do not kill the process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal and returns its name. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Starts to listen for SIGHUP, which requests a reload.
pub(crate) fn reload() -> Result<Signal, Failure> {
    on(SignalKind::hangup())
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::negative(format_args!("signal handler: {error}")))
}
