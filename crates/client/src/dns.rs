//! Lookups of the hosts of `LOGICAL_DNS` clusters, with the resolver of the system (gRFC A37).
//!
//! ```text
//!  watch(host) ──► task: look up ──► result ──► wait ──► look up ──► … until forget(host)
//!                                               │
//!                              ask_again(host) ─┘ the wait ends sooner
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use oxds_core::resource::DnsTarget;
use tokio::net::lookup_host;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// Time between two lookups of a host: the minimum of gRPC's resolver. The system's resolver does not report how long
/// an answer is valid.
const REFRESH: Duration = Duration::from_secs(30);

/// Least time between two lookups of a host whose endpoint has failed. The address that has failed may be gone, and an
/// endpoint that fails repeatedly must not cause a query each time.
const AGAIN: Duration = Duration::from_secs(5);

/// Time before the first retry of a failed lookup; it doubles up to [`REFRESH`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Result of a lookup.
#[derive(Debug)]
pub(crate) struct LookedUp {
    pub(crate) host: DnsTarget,
    /// The addresses, or the text of the error.
    pub(crate) result: Result<Vec<SocketAddr>, String>,
}

/// Hosts that are looked up from time to time. The drop ends the lookups.
#[derive(Debug)]
pub(crate) struct Lookups {
    tasks: BTreeMap<DnsTarget, Lookup>,
    sender: UnboundedSender<LookedUp>,
    results: UnboundedReceiver<LookedUp>,
}

/// Lookups of one host. The drop ends them.
#[derive(Debug)]
struct Lookup {
    task: AbortHandle,
    /// Takes one request for an earlier lookup.
    requests: Sender<()>,
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lookups {
    pub(crate) fn new() -> Self {
        let (sender, results) = mpsc::unbounded_channel();
        Self {
            tasks: BTreeMap::new(),
            sender,
            results,
        }
    }

    /// Starts to look up a host. Must be called in a tokio runtime.
    pub(crate) fn watch(&mut self, host: DnsTarget) {
        let (requests, received) = mpsc::channel(1);
        let task = look_up(host.clone(), received, self.sender.clone());
        let task = tokio::spawn(task).abort_handle();
        self.tasks.insert(host, Lookup { task, requests });
    }

    /// Stops looking up a host.
    pub(crate) fn forget(&mut self, host: &DnsTarget) {
        self.tasks.remove(host);
    }

    /// Looks a host up sooner, because a connection to it has failed. Has no effect on a host that is not watched.
    pub(crate) fn ask_again(&self, host: &DnsTarget) {
        if let Some(lookup) = self.tasks.get(host) {
            // A full channel has a request already.
            let _ = lookup.requests.try_send(());
        }
    }

    /// Waits for the next result. Cancel-safe.
    pub(crate) async fn next(&mut self) -> LookedUp {
        match self.results.recv().await {
            Some(result) => result,
            // Not reached: `sender` keeps the channel open.
            None => std::future::pending().await,
        }
    }
}

async fn look_up(host: DnsTarget, mut requests: Receiver<()>, results: UnboundedSender<LookedUp>) {
    let mut retry = FIRST_RETRY;
    loop {
        let began = Instant::now();
        // This lookup serves all requests so far.
        while requests.try_recv().is_ok() {}
        let found = lookup_host((&*host.host, host.port)).await;
        let wait = match &found {
            Ok(_) => {
                retry = FIRST_RETRY;
                REFRESH
            }
            Err(_) => {
                let wait = retry;
                retry = (retry * 2).min(REFRESH);
                wait
            }
        };
        let result = LookedUp {
            host: host.clone(),
            result: found
                .map(Iterator::collect)
                .map_err(|error| error.to_string()),
        };
        if results.send(result).is_err() {
            return;
        }
        tokio::select! {
            () = sleep(wait) => {}
            Some(()) = requests.recv() => sleep_until(began + wait.min(AGAIN)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn localhost() -> DnsTarget {
        DnsTarget {
            host: "localhost".into(),
            port: 80,
        }
    }

    /// Given a host that was looked up, when it is asked for again, then it is looked up before the refresh, and not at
    /// once.
    #[tokio::test(start_paused = true)]
    async fn c254_host_that_has_failed_is_looked_up_sooner() {
        let mut lookups = Lookups::new();
        lookups.watch(localhost());
        let began = Instant::now();
        lookups.next().await;
        lookups.next().await;
        assert!(began.elapsed() >= REFRESH);
        let began = Instant::now();
        for _ in 0..3 {
            lookups.ask_again(&localhost());
        }
        lookups.next().await;
        assert!(began.elapsed() < REFRESH, "{:?}", began.elapsed());
        assert!(began.elapsed() >= AGAIN - Duration::from_millis(1));
        // Several requests are one.
        let began = Instant::now();
        lookups.next().await;
        assert!(began.elapsed() > AGAIN);
    }

    #[tokio::test]
    async fn c254_host_is_looked_up_with_the_system_resolver() {
        let mut lookups = Lookups::new();
        let host = localhost();
        lookups.watch(host.clone());
        let found = lookups.next().await;
        assert_eq!(found.host, host);
        let addresses = found.result.unwrap();
        assert!(!addresses.is_empty());
        assert!(
            addresses
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 80)
        );
    }
}
