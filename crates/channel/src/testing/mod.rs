//! A gRPC backend for tests, demonstrations and measurements.
//!
//! [`EchoBackend`] answers any method with the message it was sent, says in `x-backend` who it is,
//! counts, and can be slow, refuse, drain or die when told to. [`Script`] configures a channel without
//! a control plane.

mod client;
pub mod expect;
mod script;
mod service;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use client::{Call, call};
pub use script::{ClusterSpec, Place, Resources, Script, broken, cluster, config, limited};

/// The response header that names the backend by its address.
pub const BACKEND_HEADER: &str = "x-backend";

/// A gRPC server on a loopback port. Stops when dropped.
#[derive(Debug)]
pub struct EchoBackend {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

/// What the handle and the connections share.
#[derive(Debug, Default)]
struct Shared {
    /// The gRPC status code of every answer.
    code: AtomicU32,
    delay_micros: AtomicU64,
    /// Beside the status.
    trailers: ArcSwap<HeaderMap>,
    max_streams: AtomicU32,
    calls: AtomicU64,
    connections: AtomicUsize,
    accepted: AtomicU64,
}

#[derive(Debug)]
struct Running {
    stop: watch::Sender<Stop>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    /// GOAWAY, then wait for the calls under way.
    Drain,
    /// Close the sockets now.
    Kill,
}

impl EchoBackend {
    /// Starts on a free port of the loopback interface.
    ///
    /// # Errors
    /// As [`start_on`](Self::start_on).
    pub async fn start() -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts where told.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start_on(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let running = Mutex::new(Some(serve(listener, address, Arc::clone(&shared))));
        Ok(Self {
            address,
            shared,
            running,
        })
    }

    /// Where it listens, also while it does not.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls begun since the start.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Connections accepted since the start.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Answers every call from now on with this gRPC status; 0 echoes.
    pub fn set_status(&self, code: u32) {
        self.shared.code.store(code, Ordering::Relaxed);
    }

    /// Sends these trailers with every echo from now on, beside the status.
    pub fn set_trailers(&self, trailers: HeaderMap) {
        self.shared.trailers.store(Arc::new(trailers));
    }

    /// Waits so long before it answers.
    pub fn set_delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.shared.delay_micros.store(micros, Ordering::Relaxed);
    }

    /// Sets `MAX_CONCURRENT_STREAMS` of connections accepted from now on; 0 is no limit.
    pub fn set_max_streams(&self, max: u32) {
        self.shared.max_streams.store(max, Ordering::Relaxed);
    }

    /// Closes the port and every connection at once, as a crash does.
    pub fn kill(&self) {
        self.stop(Stop::Kill);
    }

    /// Closes the port, and each connection with GOAWAY once its calls are over, as an orderly
    /// restart does.
    pub fn drain(&self) {
        self.stop(Stop::Drain);
    }

    /// Listens again on the same address after [`kill`](Self::kill) or [`drain`](Self::drain).
    pub async fn restart(&self) -> io::Result<()> {
        self.stop(Stop::Kill);
        let listener = TcpListener::bind(self.address).await?;
        let running = serve(listener, self.address, Arc::clone(&self.shared));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(())
    }

    fn stop(&self, how: Stop) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(running) = running {
            running.accepting.abort();
            running.stop.send_replace(how);
        }
    }
}

impl Drop for EchoBackend {
    fn drop(&mut self) {
        self.stop(Stop::Kill);
    }
}

fn serve(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) -> Running {
    let (stop, stopped) = watch::channel(Stop::No);
    let accepting = tokio::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                continue;
            };
            tokio::spawn(connection(
                socket,
                address,
                Arc::clone(&shared),
                stopped.clone(),
            ));
        }
    });
    Running { stop, accepting }
}

/// Counts an open connection until dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    socket: TcpStream,
    address: SocketAddr,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<Stop>,
) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    shared.accepted.fetch_add(1, Ordering::Relaxed);
    let _open = Open(Arc::clone(&shared));
    // Without it, a missing TCP_NODELAY costs 40 ms per answer at most: not worth a failure.
    drop(socket.set_nodelay(true));
    let max_streams = shared.max_streams.load(Ordering::Relaxed);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams((max_streams > 0).then_some(max_streams));
    let service = service::Echo::new(address, shared);
    let serving = builder.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            // How a connection of a test backend ended is the client's to notice.
            _ = &mut serving => return,
            // An error means that the handle is gone, which says Kill or Drain before it goes.
            Ok(()) = stop.changed() => match *stop.borrow_and_update() {
                Stop::No => {}
                Stop::Drain => serving.as_mut().graceful_shutdown(),
                Stop::Kill => return,
            },
        }
    }
}
