//! The wait for the server's connection preface, after the client's HTTP/2 handshake.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::{DialError, ForeignPreface};
use super::inbound::{PrefaceError, Settings};

/// The server's SETTINGS frame, which has not arrived yet.
#[derive(Debug)]
pub struct Preface(oneshot::Receiver<Result<Settings, PrefaceError>>);

impl Preface {
    pub(super) fn new(settings: oneshot::Receiver<Result<Settings, PrefaceError>>) -> Self {
        Self(settings)
    }

    /// Drives the connection until the server's SETTINGS frame has arrived. gRPC treats a connection as ready only
    /// then.
    ///
    /// # Errors
    /// If the connection ends first, or the server sends something else.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the driver where it is.
    pub async fn received<D: Future + Unpin>(
        mut self,
        driver: &mut D,
    ) -> Result<Settings, DialError> {
        let received = tokio::select! {
            received = &mut self.0 => received.ok(),
            _ = driver => self.0.try_recv().ok(),
        };
        match received {
            Some(Ok(settings)) => Ok(settings),
            // This is a TLS error: in TLS 1.3 a server checks the client's certificate after the client's handshake is
            // complete.
            Some(Err(PrefaceError::Io(error))) if error.kind() == io::ErrorKind::InvalidData => {
                Err(DialError::Security(Arc::new(error)))
            }
            Some(Err(PrefaceError::NotHttp2(first))) => {
                Err(DialError::NotHttp2(ForeignPreface::new(&first)))
            }
            // For the user, it matters that the connection ended before SETTINGS, not with which error.
            Some(Err(PrefaceError::Io(_))) | None => Err(DialError::NoPreface),
        }
    }
}
