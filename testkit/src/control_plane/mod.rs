//! A control plane that does as the test says.

mod frames;
mod listen;
mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub use stream::{AdsStream, LoadStream, Stream};

use crate::SOON;
use listen::Listener;

/// How clients are treated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Manners {
    /// Streams are handed to the test.
    #[default]
    Hand,
    /// Every stream is refused with this gRPC status.
    Refuse(tonic::Code, String),
    /// Sockets are accepted, and no byte is ever written to them, nor any more to those that are open.
    Silent,
}

/// What the test waited for did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// Not in time.
    #[error("not within {SOON:?}")]
    Late,
    /// The client has ended the stream, so it never will.
    #[error("the client ended the stream")]
    Ended,
}

/// A scripted control plane. Stops when dropped, as a killed process does.
#[derive(Debug)]
pub struct ControlPlane {
    listening: Listening,
    shared: Shared,
    streams: Handed<AdsStream>,
    loads: Handed<LoadStream>,
    running: Mutex<Option<AbortHandle>>,
}

/// Streams for the test to take.
type Handed<T> = tokio::sync::Mutex<mpsc::UnboundedReceiver<T>>;

#[derive(Debug)]
enum Listening {
    Tcp(SocketAddr),
    Unix,
}

/// What the handle and the connections share.
#[derive(Debug, Clone)]
struct Shared {
    manners: watch::Sender<Manners>,
    connections: watch::Sender<Connections>,
    streams: mpsc::UnboundedSender<AdsStream>,
    loads: mpsc::UnboundedSender<LoadStream>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Connections {
    open: usize,
    accepted: usize,
}

impl ControlPlane {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// There is none.
    pub async fn start() -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Listens where told.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start_on(address: SocketAddr) -> io::Result<Self> {
        let listener = Listener::tcp(address).await?;
        let address = listener.address()?;
        Ok(Self::new(Listening::Tcp(address), listener))
    }

    /// Listens in the file system.
    ///
    /// # Errors
    /// The path cannot be listened on.
    pub fn start_unix(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Listening::Unix, Listener::unix(path)?))
    }

    fn new(listening: Listening, listener: Listener) -> Self {
        let (streams, ads_handed) = mpsc::unbounded_channel();
        let (loads, loads_handed) = mpsc::unbounded_channel();
        let shared = Shared {
            manners: watch::Sender::default(),
            connections: watch::Sender::default(),
            streams,
            loads,
        };
        let running = Mutex::new(Some(listen::serve(listener, shared.clone())));
        Self {
            listening,
            shared,
            streams: tokio::sync::Mutex::new(ads_handed),
            loads: tokio::sync::Mutex::new(loads_handed),
            running,
        }
    }

    /// Where it listens on TCP, also while it does not.
    ///
    /// # Panics
    /// It listens in the file system.
    #[must_use]
    #[expect(clippy::panic, reason = "the test is wrong, and learns where")]
    pub fn address(&self) -> SocketAddr {
        match self.listening {
            Listening::Tcp(address) => address,
            Listening::Unix => panic!("a Unix socket has no address"),
        }
    }

    /// Treats clients in another way: from their next stream on, or, by silence, at once.
    pub fn set_manners(&self, manners: Manners) {
        self.shared.manners.send_replace(manners);
    }

    /// The next ADS stream that a client opens.
    ///
    /// # Errors
    /// None came in time.
    pub async fn next_stream(&self) -> Result<AdsStream, Missed> {
        next(&self.streams).await
    }

    /// The next stream of load reports that a client opens.
    ///
    /// # Errors
    /// None came in time.
    pub async fn next_load_stream(&self) -> Result<LoadStream, Missed> {
        next(&self.loads).await
    }

    /// Connections accepted since the start.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.connections.borrow().accepted
    }

    /// Connections open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.borrow().open
    }

    /// Waits until so many connections are open.
    ///
    /// # Errors
    /// It did not come to that in time.
    pub async fn has_connections(&self, open: usize) -> Result<(), Missed> {
        let mut connections = self.shared.connections.subscribe();
        let reached = connections.wait_for(|connections| connections.open == open);
        match timeout(SOON, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Missed::Late),
        }
    }

    /// Closes the port and every connection at once, as a crash does.
    pub fn kill(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.take() {
            running.abort();
        }
    }

    /// Listens again on the same TCP address after [`kill`](Self::kill).
    ///
    /// # Errors
    /// Somebody else has taken it.
    pub async fn restart(&self) -> io::Result<()> {
        self.kill();
        let listener = Listener::tcp(self.address()).await?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(listen::serve(listener, self.shared.clone()));
        Ok(())
    }
}

async fn next<T>(handed: &Handed<T>) -> Result<T, Missed> {
    match timeout(SOON, handed.lock().await.recv()).await {
        Ok(Some(stream)) => Ok(stream),
        Ok(None) => Err(Missed::Ended),
        Err(_) => Err(Missed::Late),
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.kill();
    }
}
