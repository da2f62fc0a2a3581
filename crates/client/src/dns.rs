//! Lookups of the hosts of `LOGICAL_DNS` clusters, with the resolver of the system (gRFC A37).
//!
//! ```text
//!  watch(host) ──► task: look up ──► result ──► wait ──► look up ──► … until forget(host)
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use oxds_core::resource::DnsTarget;
use tokio::net::lookup_host;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

/// Time between two lookups of a host: the minimum of gRPC's resolver. The system's resolver does not say how long an answer is valid.
const REFRESH: Duration = Duration::from_secs(30);

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
    tasks: BTreeMap<DnsTarget, AbortHandle>,
    sender: UnboundedSender<LookedUp>,
    results: UnboundedReceiver<LookedUp>,
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
        let task = tokio::spawn(look_up(host.clone(), self.sender.clone()));
        if let Some(before) = self.tasks.insert(host, task.abort_handle()) {
            before.abort();
        }
    }

    /// Stops looking up a host.
    pub(crate) fn forget(&mut self, host: &DnsTarget) {
        if let Some(task) = self.tasks.remove(host) {
            task.abort();
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

impl Drop for Lookups {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}

async fn look_up(host: DnsTarget, results: UnboundedSender<LookedUp>) {
    let mut retry = FIRST_RETRY;
    loop {
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
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn c254_host_is_looked_up_with_the_system_resolver() {
        let mut lookups = Lookups::new();
        let host = DnsTarget {
            host: "localhost".into(),
            port: 80,
        };
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
