//! A client that subscribes to all clusters by itself, so that a scenario sees exactly what a client receives.
//!
//! It ACKs each response. When a stream ends, it continues at the next server with its versions, as Envoy does.
//! Messages are those of `envoy-types`, not our own.

mod seen;
mod stream;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

pub(crate) use self::seen::{Clusters, Received};
use self::seen::{Seen, lock};
use crate::Fallible;
use crate::wait::until;
use crate::wire::Protocol;

/// Pause before the next server is tried.
const RETRY: Duration = Duration::from_millis(50);

/// A running client. Dropping it ends its stream.
#[derive(Debug)]
pub(crate) struct Subscriber {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
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
            if is_so(&seen.has) {
                Ok(Some(()))
            } else {
                let first: Vec<_> = seen.has.iter().take(4).collect();
                Err(format!("it has {} clusters: {first:?}…", seen.has.len()).into())
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
