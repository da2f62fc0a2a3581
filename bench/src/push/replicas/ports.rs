//! Ports that servers of a scenario get again after a restart.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use super::text::text;

/// Ports of the loopback address: nothing else gets them.
#[derive(Debug, Default)]
pub(super) struct HeldPorts {
    sockets: Vec<TcpSocket>,
}

impl HeldPorts {
    /// Takes a port that the system chooses.
    pub(super) fn hold(&mut self) -> Result<SocketAddr, String> {
        // It does not listen, so that a server may: both allow the reuse of addresses.
        let socket = TcpSocket::new_v4().map_err(text)?;
        socket.set_reuseaddr(true).map_err(text)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(text)?;
        let address = socket.local_addr().map_err(text)?;
        self.sockets.push(socket);
        Ok(address)
    }
}
