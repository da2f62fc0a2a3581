//! Listening sockets.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted.
///
/// A fleet reconnects at once, and a client whose SYN is dropped retries only after a second: with Tokio's default,
/// about 200 clients per second could connect. The limit of the system (`somaxconn`) applies besides.
const BACKLOG: u32 = 4096;

/// An address could not be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
#[non_exhaustive]
pub struct BindError {
    /// Address as it was configured.
    pub address: SocketAddr,
    /// The kind of the I/O error, most often `AddrInUse`.
    pub kind: io::ErrorKind,
    /// The error text of the system.
    pub reason: String,
}

/// A listening socket and its address, with the port that the system chose.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// Binds an address; port 0 lets the system choose the port.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, BindError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // SO_REUSEADDR lets a new process bind the port of one that has just died. On Windows it has another meaning.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    };
    listen().map_err(|error: io::Error| BindError {
        address,
        kind: error.kind(),
        reason: error.to_string(),
    })
}
