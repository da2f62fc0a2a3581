//! A TLS front for a server that serves plaintext.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// Accepts TLS connections and forwards their bytes. Stops when dropped.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: AbortHandle,
}

struct Shared {
    acceptor: Mutex<TlsAcceptor>,
    /// Handshakes that succeeded.
    handshakes: AtomicUsize,
    resumed: AtomicUsize,
    last: Mutex<LastClient>,
    disconnect: Notify,
}

#[derive(Debug, Clone, Default)]
struct LastClient {
    server_name: Option<String>,
    certificate: Option<CertificateDer<'static>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("handshakes", &self.handshakes)
            .field("resumed", &self.resumed)
            .finish_non_exhaustive()
    }
}

impl TlsFront {
    /// Listens on a free port of the loopback interface, for the server at `behind`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(acceptor: TlsAcceptor, behind: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            acceptor: Mutex::new(acceptor),
            handshakes: AtomicUsize::new(0),
            resumed: AtomicUsize::new(0),
            last: Mutex::default(),
            disconnect: Notify::new(),
        });
        let of_task = Arc::clone(&shared);
        let running = tokio::spawn(async move {
            // Aborts its tasks when dropped.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                        connections.spawn(pass(Arc::clone(&of_task), socket, behind));
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            shared,
            running: running.abort_handle(),
        })
    }

    /// Address of the front.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces certificate and key for new connections.
    pub fn set_acceptor(&self, acceptor: TlsAcceptor) {
        *lock(&self.shared.acceptor) = acceptor;
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        self.shared.disconnect.notify_waiters();
    }

    /// Returns the number of handshakes that succeeded.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.shared.handshakes.load(Ordering::SeqCst)
    }

    /// Returns the number of those that resumed a session.
    #[must_use]
    pub fn resumed(&self) -> usize {
        self.shared.resumed.load(Ordering::SeqCst)
    }

    /// Returns the server name that the last client sent (SNI).
    #[must_use]
    pub fn server_name(&self) -> Option<String> {
        lock(&self.shared.last).server_name.clone()
    }

    /// Returns the certificate of the last client, in DER.
    #[must_use]
    pub fn client_certificate(&self) -> Option<Vec<u8>> {
        let last = lock(&self.shared.last);
        last.certificate
            .as_ref()
            .map(|certificate| certificate.to_vec())
    }
}

/// Both ends notice how a connection ended.
async fn pass(shared: Arc<Shared>, socket: TcpStream, behind: SocketAddr) -> io::Result<()> {
    let acceptor = lock(&shared.acceptor).clone();
    let mut client = acceptor.accept(socket).await?;
    let connection = client.get_ref().1;
    let certificates = connection.peer_certificates();
    *lock(&shared.last) = LastClient {
        server_name: connection.server_name().map(ToOwned::to_owned),
        certificate: certificates
            .and_then(|chain| chain.first())
            .map(|first| first.clone().into_owned()),
    };
    if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
        shared.resumed.fetch_add(1, Ordering::SeqCst);
    }
    shared.handshakes.fetch_add(1, Ordering::SeqCst);
    let mut server = TcpStream::connect(behind).await?;
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut server) => copied.map(drop),
        () = shared.disconnect.notified() => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.running.abort();
    }
}
