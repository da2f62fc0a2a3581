//! A port that serves gRPC.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service as _;

/// Delay before the next accept after one failed (mostly for lack of file descriptors).
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A listening socket without a service.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    refuse_v4: bool,
}

/// A port that cannot be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("port {port}: {source}")]
pub struct PortError {
    /// Number of the port.
    pub port: u16,
    source: Arc<io::Error>,
}

/// Address families of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AddressType {
    /// Both families, where the machine has both.
    #[default]
    #[value(name = "IPV4_IPV6")]
    Both,
    /// IPv4 only.
    #[value(name = "IPV4")]
    V4,
    /// IPv6 only.
    #[value(name = "IPV6")]
    V6,
}

impl Port {
    /// Listens on a port of all interfaces; 0 lets the system choose.
    ///
    /// # Errors
    /// The port is taken, or the machine has no such addresses.
    pub async fn bind(port: u16, address_type: AddressType) -> Result<Self, PortError> {
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let bound = match address_type {
            AddressType::V4 => TcpListener::bind(v4).await,
            AddressType::V6 => TcpListener::bind(v6).await,
            // The unspecified IPv6 address accepts IPv4, too; a machine without IPv6 lacks it.
            AddressType::Both => match TcpListener::bind(v6).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(v4).await
                }
                bound => bound,
            },
        };
        let listen = |listener: TcpListener| {
            Ok(Self {
                address: listener.local_addr()?,
                listener,
                refuse_v4: address_type == AddressType::V6,
            })
        };
        bound.and_then(listen).map_err(|error| PortError {
            port,
            source: Arc::new(error),
        })
    }

    /// Number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// Serves until dropped; the connections end with it.
    pub async fn serve(self, routes: Routes) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((_, peer)) if self.refuse_v4 && is_v4(peer.ip()) => {}
                Ok((socket, _)) => {
                    connections.spawn(connection(socket, routes.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }
}

/// Whether an address is IPv4, plain or mapped into IPv6.
fn is_v4(address: IpAddr) -> bool {
    address.to_canonical().is_ipv4()
}

async fn connection(socket: TcpStream, routes: Routes) {
    // Responses are small and awaited: they must not wait for more data (TCP_NODELAY).
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| answer(routes.clone(), request));
    let builder = http2::Builder::new(TokioExecutor::new());
    // The client notices how a connection ended.
    let _ = builder
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

async fn answer(
    mut routes: Routes,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    routes.call(request.map(Body::new)).await
}
