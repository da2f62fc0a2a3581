//! A client that subscribes to all clusters by itself, so that a scenario sees exactly what a client receives.
//!
//! It ACKs each response, and after the end of a stream goes on at the next server with what it has, as Envoy does. Messages are those of
//! `envoy-types`, not our own.

mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::Fallible;
use crate::wait::until;
use crate::wire::Protocol;

/// Pause before the next server is tried.
const RETRY: Duration = Duration::from_millis(50);

/// Clusters by name, with the text that each has in `alt_stat_name`: scenarios write there which publish it is of.
pub(crate) type Clusters = BTreeMap<String, String>;

/// A running client. Dropping it ends its stream.
#[derive(Debug)]
pub(crate) struct Subscriber {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// One response as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) changed: Clusters,
    /// Delta only.
    pub(crate) removed: Vec<String>,
    /// Number of clusters that the client has after it.
    pub(crate) total: usize,
    /// Number of its stream: 1 for the first one.
    pub(crate) stream: u64,
    /// Number of the server's process, as the scenario counts them.
    pub(crate) process: u64,
}

#[derive(Debug, Default)]
struct Seen {
    has: Clusters,
    /// Delta: versions of these clusters.
    versions: BTreeMap<String, String>,
    responses: Vec<Received>,
    stream: u64,
    process: u64,
}

impl Seen {
    fn begin_stream(&mut self, process: u64) {
        self.stream += 1;
        self.process = process;
    }

    /// Adds a response, which `has` contains already.
    fn record(&mut self, received: Received) {
        self.responses.push(Received {
            total: self.has.len(),
            stream: self.stream,
            process: self.process,
            ..received
        });
    }
}

impl Subscriber {
    /// Starts a client of the first server that answers; the others are for later.
    pub(crate) fn start(servers: Vec<SocketAddr>, protocol: Protocol) -> Self {
        Self::counting(servers, protocol, Arc::default())
    }

    /// The same. The scenario counts in `processes` how often it has killed the server, before it starts it again.
    pub(crate) fn counting(
        servers: Vec<SocketAddr>,
        protocol: Protocol,
        processes: Arc<AtomicU64>,
    ) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            for server in servers.iter().cycle() {
                // A stream that ended is continued at the next server, whatever the reason.
                let process = || processes.load(Ordering::SeqCst);
                let _ = stream::follow(*server, protocol, &shared, process).await;
                tokio::time::sleep(RETRY).await;
            }
        });
        Self { seen, task }
    }

    /// Number of responses so far.
    pub(crate) fn mark(&self) -> usize {
        lock(&self.seen).responses.len()
    }

    /// Responses after the mark.
    pub(crate) fn since(&self, mark: usize) -> Vec<Received> {
        let seen = lock(&self.seen);
        seen.responses.get(mark..).unwrap_or_default().to_vec()
    }

    /// Takes all responses so far out of the record.
    pub(crate) fn take(&self) -> Vec<Received> {
        std::mem::take(&mut lock(&self.seen).responses)
    }

    /// Waits until the client has clusters like this.
    pub(crate) async fn has(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Clusters) -> bool,
    ) -> Fallible {
        until(what, limit, async || {
            let seen = lock(&self.seen);
            match is_so(&seen.has) {
                true => Ok(Some(())),
                false => {
                    let first: Vec<_> = seen.has.iter().take(4).collect();
                    Err(format!("it has {} clusters: {first:?}…", seen.has.len()).into())
                }
            }
        })
        .await
    }

    /// Waits until it has exactly these clusters.
    pub(crate) async fn has_only(&self, clusters: &[(&str, &str)], limit: Duration) -> Fallible {
        let wanted = owned(clusters);
        self.has(&format!("{clusters:?}"), limit, |has| *has == wanted)
            .await
    }

    /// Fails unless it received exactly one response since the mark, with these changes and removals.
    pub(crate) fn received_once(
        &self,
        mark: usize,
        changed: &[(&str, &str)],
        removed: &[&str],
    ) -> Fallible {
        let responses = self.since(mark);
        let is_so = |one: &Received| one.changed == owned(changed) && one.removed == removed;
        match responses.as_slice() {
            [one] if is_so(one) => Ok(()),
            other => Err(format!("received {other:?}, expected {changed:?}, -{removed:?}").into()),
        }
    }

    /// Fails if it received a response since the mark.
    pub(crate) fn received_nothing(&self, mark: usize) -> Fallible {
        match self.since(mark).as_slice() {
            [] => Ok(()),
            responses => Err(format!("received {responses:?}, expected nothing").into()),
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn owned(clusters: &[(&str, &str)]) -> Clusters {
    let pairs = clusters.iter();
    pairs
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
