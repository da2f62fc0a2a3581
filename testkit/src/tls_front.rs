//! A TLS front for a server that serves plaintext.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Accepts TLS connections and forwards their bytes. Stops when dropped.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    running: AbortHandle,
}

impl TlsFront {
    /// Listens on a free port of the loopback interface, for the server at `behind`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(acceptor: TlsAcceptor, behind: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let running = tokio::spawn(async move {
            // Aborts its tasks when dropped.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                        connections.spawn(pass(acceptor.clone(), socket, behind));
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            running: running.abort_handle(),
        })
    }

    /// Address of the front.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Both ends notice how a connection ended.
async fn pass(acceptor: TlsAcceptor, socket: TcpStream, behind: SocketAddr) -> io::Result<()> {
    let mut client = acceptor.accept(socket).await?;
    let mut server = TcpStream::connect(behind).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.running.abort();
    }
}
