//! Sockets: accepted, served, counted, and closed all at once.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};

use super::receive::receive;
use super::shared::{Manners, Shared};

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Listener {
    pub(super) async fn tcp(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).await.map(Self::Tcp)
    }

    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        UnixListener::bind(path).map(Self::Unix)
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Io>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Serves until aborted, which closes the port and every connection.
pub(super) fn serve(listener: Listener, shared: Shared) -> AbortHandle {
    let accepting = async move {
        // Aborts its tasks when dropped.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                socket = listener.accept() => if let Ok(socket) = socket {
                    connections.spawn(connection(socket, Open::new(shared.clone())));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    };
    tokio::spawn(accepting).abort_handle()
}

async fn connection(mut socket: Box<dyn Io>, open: Open) {
    let silent = *open.0.manners.borrow() == Manners::Silent;
    if silent {
        // Until the client disconnects.
        drop(tokio::io::copy(&mut socket, &mut tokio::io::sink()).await);
        return;
    }
    let shared = open.0.clone();
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(receive(request, &shared).await) }
    });
    let serving =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service);
    let mut manners = open.0.manners.subscribe();
    let silence = async move {
        drop(
            manners
                .wait_for(|manners| *manners == Manners::Silent)
                .await,
        );
    };
    tokio::pin!(serving);
    tokio::select! {
        // The client notices how a connection ended.
        _ = &mut serving => {}
        // The socket stays open, as on a machine that was cut off.
        () = silence => pending().await,
    }
}

/// Counts an open connection until dropped.
struct Open(Shared);

impl Open {
    fn new(shared: Shared) -> Self {
        shared.connections.send_modify(|connections| {
            connections.accepted += 1;
            connections.open += 1;
        });
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0
            .connections
            .send_modify(|connections| connections.open -= 1);
    }
}
