//! A TCP relay that a scenario closes, points to another server, or lets lose an answer: the network between oxds and
//! etcd.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::Fallible;
use crate::wait::until;

/// A running relay. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    faults: Arc<Mutex<Faults>>,
    /// Grows when all connections must end.
    cut: watch::Sender<u64>,
    silence: watch::Sender<Silence>,
    task: JoinHandle<()>,
}

/// Directions in which nothing arrives. Bytes on their way wait, and arrive when the silence ends: a network that loses
/// packets repeats them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) of_requests: bool,
    pub(crate) of_answers: bool,
}

#[derive(Debug)]
struct Faults {
    /// The server behind it; `None` while it is closed.
    target: Option<SocketAddr>,
    /// Bytes of a request whose answer is lost. All later bytes of its connection are lost, too.
    loses_answer_to: Option<Vec<u8>>,
    /// There was such a request.
    is_losing: bool,
    /// Time that each part of an answer takes.
    delay: Duration,
}

impl Gate {
    /// Listens on a port that the system chooses, before a server.
    pub(crate) async fn before(target: SocketAddr) -> Fallible<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let faults = Arc::new(Mutex::new(Faults {
            target: Some(target),
            loses_answer_to: None,
            is_losing: false,
            delay: Duration::ZERO,
        }));
        let cut = watch::Sender::new(0);
        let silence = watch::Sender::new(Silence::default());
        let (shared, ends, silences) = (Arc::clone(&faults), cut.subscribe(), silence.subscribe());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let target = lock(&shared).target;
                if let Some(target) = target {
                    let (shared, mut ends) = (Arc::clone(&shared), ends.clone());
                    let silences = silences.clone();
                    ends.mark_unchanged();
                    connections.spawn(async move {
                        tokio::select! {
                            ended = relay(client, target, &shared, silences) => drop(ended),
                            _ = ends.changed() => {}
                        }
                    });
                }
            }
        });
        Ok(Self {
            address,
            faults,
            cut,
            silence,
            task,
        })
    }

    /// URL for a client of etcd.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections, and refuses new ones.
    pub(crate) fn close(&self) {
        lock(&self.faults).target = None;
        self.cut_all();
    }

    /// Leads new connections to this server, and ends all others.
    pub(crate) fn open(&self, target: SocketAddr) {
        lock(&self.faults).target = Some(target);
        self.cut_all();
    }

    /// Ends all connections; new ones are accepted.
    pub(crate) fn cut_all(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Lets nothing arrive in these directions, on present and new connections.
    pub(crate) fn silence(&self, silence: Silence) {
        self.silence.send_replace(silence);
    }

    /// Makes the network slow: each part of an answer takes this time.
    pub(crate) fn delay(&self, delay: Duration) {
        lock(&self.faults).delay = delay;
    }

    /// Loses the answer to the first request that contains these bytes, and everything after it on its connection.
    pub(crate) fn lose_answer_to(&self, bytes: &[u8]) {
        let mut faults = lock(&self.faults);
        faults.loses_answer_to = Some(bytes.to_vec());
        faults.is_losing = false;
    }

    /// Waits until an answer is being lost.
    pub(crate) async fn loses(&self, limit: Duration) -> Fallible {
        until("a request whose answer is lost", limit, async || {
            Ok(lock(&self.faults).is_losing.then_some(()))
        })
        .await
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn relay(
    client: TcpStream,
    target: SocketAddr,
    faults: &Mutex<Faults>,
    mut silences: watch::Receiver<Silence>,
) -> Fallible {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let loses = watch::Sender::new(false);
    let lost = loses.subscribe();
    let mut silences_of_answers = silences.clone();
    let requests = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = from_client.read(&mut buffer).await?;
            if n == 0 {
                return Fallible::Ok(());
            }
            let bytes = &buffer[..n];
            {
                let mut faults = lock(faults);
                let wanted = |wanted: &mut Vec<u8>| {
                    bytes.windows(wanted.len()).any(|part| part == &wanted[..])
                };
                // Before the bytes are sent, so that no answer is faster.
                if faults.loses_answer_to.take_if(wanted).is_some() {
                    loses.send_replace(true);
                    faults.is_losing = true;
                }
            }
            silences.wait_for(|silence| !silence.of_requests).await?;
            to_server.write_all(bytes).await?;
        }
    };
    let responses = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = from_server.read(&mut buffer).await?;
            if n == 0 {
                return Fallible::Ok(());
            }
            let delay = lock(faults).delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let is_heard = |silence: &Silence| !silence.of_answers;
            silences_of_answers.wait_for(is_heard).await?;
            if !*lost.borrow() {
                to_client.write_all(&buffer[..n]).await?;
            }
        }
    };
    tokio::select! {
        ended = requests => ended,
        ended = responses => ended,
    }
}
