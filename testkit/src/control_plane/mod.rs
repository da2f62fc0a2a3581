//! A control plane that a test scripts.

mod frames;
mod listen;
mod receive;
mod shared;
mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub use shared::Manners;
pub use stream::{AdsStream, LoadStream, Missed, Stream};

use crate::SOON;
use listen::Listener;
use shared::Shared;

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

impl ControlPlane {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Listens on this address.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start_on(address: SocketAddr) -> io::Result<Self> {
        let listener = Listener::tcp(address).await?;
        let address = listener.address()?;
        Ok(Self::new(Listening::Tcp(address), listener))
    }

    /// Listens on a Unix socket.
    ///
    /// # Errors
    /// When the path cannot be listened on.
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

    /// TCP address of the server, also while it is stopped.
    ///
    /// # Panics
    /// If it listens on a Unix socket.
    #[must_use]
    #[expect(clippy::panic, reason = "the test is wrong, and learns where")]
    pub fn address(&self) -> SocketAddr {
        match self.listening {
            Listening::Tcp(address) => address,
            Listening::Unix => panic!("a Unix socket has no address"),
        }
    }

    /// Changes the behaviour: for the next streams or, for silence, at once.
    pub fn set_manners(&self, manners: Manners) {
        self.shared.manners.send_replace(manners);
    }

    /// Returns the next ADS stream that a client opens.
    ///
    /// # Errors
    /// When none comes before the deadline.
    pub async fn next_stream(&self) -> Result<AdsStream, Missed> {
        next(&self.streams).await
    }

    /// Returns the next stream of load reports that a client opens.
    ///
    /// # Errors
    /// When none comes before the deadline.
    pub async fn next_load_stream(&self) -> Result<LoadStream, Missed> {
        next(&self.loads).await
    }

    /// Number of connections accepted since the start.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.connections.borrow().accepted
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.borrow().open
    }

    /// Waits until this many connections are open.
    ///
    /// # Errors
    /// When that does not happen before the deadline.
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
    /// When another process has taken the address.
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
