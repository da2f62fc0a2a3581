//! HTTP/2 connections of a swarm.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::rustls::pki_types::ServerName;

use super::manner::{Manner, text};

/// HTTP/2 window: large enough that a server never waits for it.
const WINDOW: u32 = 16 << 20;

/// Connects. The connection ends with these tasks.
pub(super) async fn connect(
    address: SocketAddr,
    manner: &Manner,
    tasks: &mut JoinSet<()>,
) -> Result<SendRequest<Bytes>, String> {
    let socket = TcpStream::connect(address).await.map_err(text)?;
    socket.set_nodelay(true).map_err(text)?;
    match &manner.tls {
        Some(tls) => {
            let name = ServerName::from(address.ip());
            let socket = tls.connect(name, socket).await.map_err(text)?;
            handshake(socket, tasks).await
        }
        None => handshake(socket, tasks).await,
    }
}

async fn handshake(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tasks: &mut JoinSet<()>,
) -> Result<SendRequest<Bytes>, String> {
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(socket)
        .await
        .map_err(text)?;
    tasks.spawn(async {
        // Its streams report how it ended.
        let _ = connection.await;
    });
    Ok(sender)
}
