//! The echo backend: its server, and the handle that controls it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::service::{EchoService, EchoState};

/// A gRPC echo server on a loopback port. Stops when dropped.
#[derive(Debug)]
pub struct EchoBackend {
    address: SocketAddr,
    state: Arc<EchoState>,
    running: Mutex<Option<RunningServer>>,
    /// The aborted task of the last server, which holds the listener until the runtime drops it.
    closing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct RunningServer {
    stop: watch::Sender<StopMode>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopMode {
    /// Keep serving until the next mode.
    None,
    /// Send GOAWAY, then wait for the calls under way.
    Drain,
    /// Close the sockets at once.
    Kill,
}

impl EchoBackend {
    /// Starts a backend on a free port of the loopback interface.
    ///
    /// # Errors
    /// As [`start_on`](Self::start_on).
    pub async fn start() -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts a backend on this address.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start_on(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(EchoState::default());
        let running = Mutex::new(Some(serve(listener, address, Arc::clone(&state))));
        Ok(Self {
            address,
            state,
            running,
            closing: Mutex::default(),
        })
    }

    /// Returns its address, which stays the same while it is stopped.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of calls received since [`start`](Self::start).
    pub fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of connections accepted since [`start`](Self::start).
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// Makes new calls fail with this gRPC status code; 0 echoes again.
    pub fn set_status(&self, code: u32) {
        self.state.code.store(code, Ordering::Relaxed);
    }

    /// Makes the next `count` calls fail with this gRPC status code and these headers.
    pub fn fail_next(&self, count: u32, code: u32, headers: HeaderMap) {
        self.state.failure.store(Arc::new((code, headers)));
        self.state.failures.store(count, Ordering::Relaxed);
    }

    /// Returns the headers of the last call that had a header `x-keep`, or came while [`fail_next`](Self::fail_next)
    /// was in effect, with its `:authority` as `x-authority` and its `:scheme` as `x-scheme`. Others are not kept,
    /// because that costs time.
    pub fn request_headers(&self) -> Arc<HeaderMap> {
        self.state.request_headers.load_full()
    }

    /// Sends these trailers with each later echo, in addition to the status.
    pub fn set_trailers(&self, trailers: HeaderMap) {
        self.state.trailers.store(Arc::new(trailers));
    }

    /// Sends this load report on each stream of reports out of band (gRFC A51), as an encoded `OrcaLoadReport`; `None`
    /// ends the open streams, and later ones fail with UNIMPLEMENTED, as before the first call.
    pub fn set_report(&self, report: Option<&[u8]>) {
        let framed = report.map(|report| {
            let length = u32::try_from(report.len()).unwrap_or_default();
            [&[0][..], &length.to_be_bytes(), report].concat().into()
        });
        self.state.report.send_replace(framed);
    }

    /// Ends the open streams of load reports that wait for the next one, with UNAVAILABLE.
    pub fn end_report_streams(&self) {
        self.state.report_end.notify_waiters();
    }

    /// Returns the number of streams of load reports that clients have opened.
    pub fn report_streams(&self) -> u64 {
        self.state.report_streams.load(Ordering::Relaxed)
    }

    /// Returns the number of streams of load reports that are open.
    pub fn open_report_streams(&self) -> usize {
        self.state.open_report_streams.load(Ordering::Relaxed)
    }

    /// Delays each later response.
    pub fn set_delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.state.delay_micros.store(micros, Ordering::Relaxed);
    }

    /// Sets `MAX_CONCURRENT_STREAMS` of connections accepted later; 0 for no limit.
    pub fn set_max_streams(&self, max: u32) {
        self.state.max_streams.store(max, Ordering::Relaxed);
    }

    /// Sends GOAWAY on each later connection when this number of requests has arrived on it, as Envoy does with
    /// `max_requests_per_connection`; 0 for no limit. The connection closes after its last call.
    pub fn set_max_requests(&self, max: u32) {
        self.state.max_requests.store(max, Ordering::Relaxed);
    }

    /// Closes the port and all connections at once, as a crash does.
    pub fn kill(&self) {
        self.stop(StopMode::Kill);
    }

    /// Closes the port, sends GOAWAY, and closes each connection after its last call, as an orderly
    /// restart does.
    pub fn drain(&self) {
        self.stop(StopMode::Drain);
    }

    /// Listens again on the same address after [`kill`](Self::kill) or [`drain`](Self::drain).
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop(StopMode::Kill);
        let closing = lock(&self.closing).take();
        if let Some(closing) = closing {
            // The port is free when the task is gone. Its result says only that it was aborted.
            let _ = closing.await;
        }
        let listener = TcpListener::bind(self.address).await?;
        let running = serve(listener, self.address, Arc::clone(&self.state));
        *lock(&self.running) = Some(running);
        Ok(())
    }

    fn stop(&self, mode: StopMode) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.accepting.abort();
            running.stop.send_replace(mode);
            *lock(&self.closing) = Some(running.accepting);
        }
    }
}

impl Drop for EchoBackend {
    fn drop(&mut self) {
        self.stop(StopMode::Kill);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: TcpListener, address: SocketAddr, state: Arc<EchoState>) -> RunningServer {
    let (stop, stopped) = watch::channel(StopMode::None);
    let accepting = tokio::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                continue;
            };
            tokio::spawn(connection(
                socket,
                address,
                Arc::clone(&state),
                stopped.clone(),
            ));
        }
    });
    RunningServer { stop, accepting }
}

/// Counts an open connection until dropped.
struct OpenConnection(Arc<EchoState>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    socket: TcpStream,
    address: SocketAddr,
    state: Arc<EchoState>,
    mut stop: watch::Receiver<StopMode>,
) {
    state.connections.fetch_add(1, Ordering::Relaxed);
    state.accepted.fetch_add(1, Ordering::Relaxed);
    let _open = OpenConnection(Arc::clone(&state));
    // Without TCP_NODELAY a response is at most 40 ms late: not worth a failure.
    drop(socket.set_nodelay(true));
    let max_streams = state.max_streams.load(Ordering::Relaxed);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams((max_streams > 0).then_some(max_streams));
    let service = EchoService::new(address, state);
    let requests = Arc::clone(&service.requests);
    let serving = builder.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            // The client sees how the connection ended.
            _ = &mut serving => return,
            () = requests.full() => serving.as_mut().graceful_shutdown(),
            // The sender sets Kill or Drain before it is dropped, so the error case needs no branch.
            Ok(()) = stop.changed() => match *stop.borrow_and_update() {
                StopMode::None => {}
                StopMode::Drain => serving.as_mut().graceful_shutdown(),
                StopMode::Kill => return,
            },
        }
    }
}
