//! Resources of one scenario.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpSocket;

use crate::Fallible;
use crate::programs::Programs;

/// Resources of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) programs: Arc<Programs>,
    /// The scenario's own folder: configuration, logs, bootstrap files.
    pub(crate) dir: PathBuf,
    /// Bound sockets of [`address`](Self::address), until the last clone is dropped.
    held: Arc<Mutex<Vec<TcpSocket>>>,
}

impl Context {
    pub(crate) fn new(programs: Arc<Programs>, dir: PathBuf) -> Self {
        Self {
            programs,
            dir,
            held: Arc::default(),
        }
    }

    /// A loopback address for a process of this scenario: the process can bind it, die, and bind it again.
    ///
    /// A socket that does not listen holds the port. With `SO_REUSEADDR` on both, a server may listen beside it (every
    /// peer's server sets the option), but the system gives the port to no other program, neither while the server is
    /// down nor before it has started.
    pub(crate) fn address(&self) -> Fallible<SocketAddr> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(socket);
        Ok(address)
    }
}
