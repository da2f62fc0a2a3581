//! The scenarios, by peer.

mod admin;
mod api;
mod channel;
mod channel_protocols;
mod channel_v2;
mod csds;
mod envoy;
mod envoy_files;
mod envoy_kinds;
mod envoy_scopes;
mod envoy_transports;
mod fallback;
mod grpc;
mod grpc_server;
mod grpc_v2;
mod loads;
mod restart;
mod secured_client;
mod secured_server;
mod source;
mod suite;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::calls::{Calls, Counts};
use crate::{Context, Fallible};

/// Deadline of everything that must happen: many times its usual duration, for a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Number of calls in a row that must agree before traffic counts as moved.
const SETTLED: usize = 60;

/// Waits until exactly `backends` answer these calls, or this traffic.
async fn only_at(calls: &Calls, what: &str, backends: &[&str]) -> Fallible {
    let what = format!("{what} at {backends:?} only");
    let only = |counts: &Counts| counts.only(backends);
    calls.settle(&what, SETTLED, SOON, only).await?;
    Ok(())
}

/// A named scenario.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn(Context) -> Ending>,
}

/// Future of a scenario's result. It stays on the runner's own thread, so it need not be `Send`.
type Ending = Pin<Box<dyn Future<Output = Fallible>>>;

impl Scenario {
    fn new<F>(name: String, run: impl Fn(Context) -> F + 'static) -> Self
    where
        F: Future<Output = Fallible> + 'static,
    {
        Self {
            name,
            run: Box::new(move |context| Box::pin(run(context))),
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// All scenarios, in the order in which they run.
pub(crate) fn all() -> Vec<Scenario> {
    [
        api::scenarios(),
        envoy::scenarios(),
        envoy_transports::scenarios(),
        envoy_kinds::scenarios(),
        envoy_scopes::scenarios(),
        envoy_files::scenarios(),
        grpc::scenarios(),
        grpc_server::scenarios(),
        admin::scenarios(),
        csds::scenarios(),
        restart::scenarios(),
        source::scenarios(),
        grpc_v2::scenarios(),
        channel::scenarios(),
        loads::scenarios(),
        channel_protocols::scenarios(),
        channel_v2::scenarios(),
        fallback::scenarios(),
        secured_server::scenarios(),
        secured_client::scenarios(),
        suite::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
