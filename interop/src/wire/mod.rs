//! A witness between a client and its control plane: a TCP relay that reads the traffic.
//!
//! It forwards every byte unchanged, so that the two HTTP/2 stacks still talk to each other, and decodes the discovery
//! messages with `envoy-types`, not with our own envelope. Each message is recorded before it is forwarded: a message
//! that a peer sends as a reaction stands after its cause in the record.

mod frames;
mod message;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::Fallible;
use frames::Frames;
pub(crate) use message::{Message, Protocol, Request, Response};

/// A running relay. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Address for clients, in place of the control plane's.
    pub(crate) address: SocketAddr,
    record: Record,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Record {
    seen: Arc<Mutex<Vec<Message>>>,
    started: Instant,
    log: PathBuf,
}

impl Wire {
    /// Listens on a port that the system chooses, relays to `upstream`, logs to `dir/wire.log`.
    pub(crate) async fn start(
        upstream: SocketAddr,
        protocol: Protocol,
        dir: &Path,
    ) -> Fallible<Self> {
        Self::balance(vec![upstream], protocol, dir).await
    }

    /// The same with several control planes: a connection goes to the next one in turn that accepts it.
    pub(crate) async fn balance(
        upstreams: Vec<SocketAddr>,
        protocol: Protocol,
        dir: &Path,
    ) -> Fallible<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let record = Record {
            seen: Arc::default(),
            started: Instant::now(),
            log: dir.join("wire.log"),
        };
        let shared = record.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut count = 0;
            while let Ok((client, _)) = listener.accept().await {
                let mut turn = upstreams.clone();
                turn.rotate_left(count % upstreams.len().max(1));
                connections.spawn(relay(client, turn, count, protocol, shared.clone()));
                count += 1;
            }
        });
        Ok(Self {
            address,
            record,
            task,
        })
    }

    /// Current end of the record, for the `…_since` methods.
    pub(crate) fn mark(&self) -> usize {
        self.lock().len()
    }

    /// Messages that passed after `mark`.
    pub(crate) fn since(&self, mark: usize) -> Vec<Message> {
        self.lock().get(mark..).unwrap_or_default().to_vec()
    }

    /// Responses that passed after `mark`.
    pub(crate) fn responses_since(&self, mark: usize) -> Vec<Response> {
        self.since(mark)
            .into_iter()
            .filter_map(Message::response)
            .collect()
    }

    /// Requests that passed after `mark`.
    pub(crate) fn requests_since(&self, mark: usize) -> Vec<Request> {
        self.since(mark)
            .into_iter()
            .filter_map(Message::request)
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        self.record
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Record {
    fn push(&self, connection: usize, message: Message) {
        use std::io::Write as _;
        let line = format!(
            "{:8.3} #{connection} {message}\n",
            self.started.elapsed().as_secs_f32()
        );
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log);
        // The log is for people; scenarios use the record.
        let _ = log.and_then(|mut file| file.write_all(line.as_bytes()));
        seen.push(message);
    }
}

/// Relays one connection both ways until either side closes.
async fn relay(
    client: TcpStream,
    upstreams: Vec<SocketAddr>,
    connection: usize,
    protocol: Protocol,
    record: Record,
) -> Fallible {
    let server = TcpStream::connect(upstreams.as_slice()).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pass(from_client, to_server, Frames::of_client(), |bytes| {
        if let Some(message) = protocol.request(bytes) {
            record.push(connection, message);
        }
    });
    let responses = pass(from_server, to_client, Frames::of_server(), |bytes| {
        if let Some(message) = protocol.response(bytes) {
            record.push(connection, message);
        }
    });
    // The end of one direction ends both, as the death of a process would.
    tokio::select! {
        ended = requests => ended,
        ended = responses => ended,
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut frames: Frames,
    mut each: impl FnMut(&[u8]),
) -> Fallible {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = from.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        frames.feed(&buffer[..n], &mut each);
        to.write_all(&buffer[..n]).await?;
    }
}
