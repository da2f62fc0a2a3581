//! The listening socket of an address.
//!
//! ```text
//!          listen             close
//!  Bound ─────────► Listening ─────┐   a bound socket refuses connections, and keeps the port
//!    ▲ └───────┐                   │
//!    │ bind    │ listen fails      │
//!    │         ▼                   │
//!    └───── Unbound ◄──────────────┘
//!      by each try to listen
//! ```

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that may wait to be accepted. The operating system has a limit of its own.
const BACKLOG: u32 = 1024;

/// The listening socket of an address, in each of its states.
#[derive(Debug)]
pub(crate) struct Socket {
    address: SocketAddr,
    state: SocketState,
}

#[derive(Debug)]
enum SocketState {
    Unbound,
    Bound(TcpSocket),
    Listening(TcpListener),
}

impl Socket {
    /// Binds an address, without listening.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = bound(address)?;
        Ok(Self {
            address: socket.local_addr()?,
            state: SocketState::Bound(socket),
        })
    }

    /// Returns the address with its real port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, unless it does already.
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        let state = std::mem::replace(&mut self.state, SocketState::Unbound);
        let socket = match state {
            SocketState::Listening(listener) => {
                self.state = SocketState::Listening(listener);
                return Ok(());
            }
            SocketState::Bound(socket) => socket,
            SocketState::Unbound => bound(self.address)?,
        };
        self.state = SocketState::Listening(socket.listen(BACKLOG)?);
        Ok(())
    }

    /// Stops to listen. The address is bound again, so that it does not become the port of an outgoing connection; if
    /// that fails, [`listen`](Self::listen) tries it again.
    pub(crate) fn close(&mut self) {
        if matches!(self.state, SocketState::Listening(_)) {
            self.state = SocketState::Unbound;
            if let Ok(socket) = bound(self.address) {
                self.state = SocketState::Bound(socket);
            }
        }
    }

    /// Waits for the next connection; never completes while it does not listen. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.state {
            SocketState::Listening(listener) => listener.accept().await,
            SocketState::Unbound | SocketState::Bound(_) => pending().await,
        }
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // As std does for its listeners: connections of a former listener in TIME_WAIT must not prevent a restart.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
