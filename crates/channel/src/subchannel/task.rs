//! The task of a subchannel: dials, holds the connections, backs off.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use oxds_core::backoff::Backoff;
use oxds_net::rpc::random;
use oxds_net::transport::DialError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::dial::dial;
use super::state::{Connections, SubchannelShared, SubchannelState};
use crate::metrics::DisconnectReason;
use crate::stream::{Connection, ConnectionDriver};

/// Age from which a connection counts as useful even if it carried no call. One second, as the first step of gRPC's
/// connection backoff.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// Connections in a row that may end early without a call before the next dial backs off. The rule of gRPC has no
/// limit; this one is ours, so that an endpoint that accepts and closes, or sends a GOAWAY to everyone, causes no hot
/// loop.
const MAX_USELESS: u32 = 5;

/// Most connections to one address (gRFC A105).
const MAX_CONNECTIONS: usize = 10;

type Stopped = oneshot::Receiver<Infallible>;

/// Runs the subchannel's automaton until its handle is dropped.
pub(super) async fn run(shared: Arc<SubchannelShared>, mut stopped: Stopped) {
    let mut backoff = Backoff::default();
    let mut useless = 0;
    let mut logged = None;
    let automaton = async {
        loop {
            shared.connect.notified().await;
            shared.enter(SubchannelState::Connecting);
            let began = Instant::now();
            match dial_once(&shared).await {
                Ok(first) => {
                    logged = None;
                    let was_useful = ready(&shared, first).await;
                    useless = if was_useful { 0 } else { useless + 1 };
                    if useless < MAX_USELESS {
                        // gRPC connection backoff: only attempts that fail before the server's SETTINGS back off. After
                        // a connection that was ready, the next dial starts at once.
                        backoff.reset();
                    } else {
                        shared.enter(SubchannelState::Connecting);
                        sleep(backoff.next(random())).await;
                    }
                }
                Err(error) => {
                    count_failure(&shared);
                    log_security(&shared, &error, &mut logged);
                    // gRPC connection backoff: a failed subchannel stays in TRANSIENT_FAILURE until the backoff time,
                    // which counts from the start of the attempt, is over.
                    shared.enter(SubchannelState::TransientFailure(error));
                    sleep_until(began + backoff.next(random())).await;
                }
            }
            shared.enter(SubchannelState::Idle);
        }
    };
    until_stopped(&mut stopped, automaton).await;
    shared.release_connections();
}

/// Stays in state `Ready` until no connection takes requests any more: each is closed, or goes away. Returns whether
/// one of them was useful.
async fn ready(shared: &SubchannelShared, first: (Arc<Connection>, ConnectionDriver)) -> bool {
    let since = Instant::now();
    let (ended_sender, mut ended) = mpsc::unbounded_channel();
    let mut open = Connections::new();
    let mut was_useful = false;
    let mut recorded = RecordedConnections::new(shared);
    open.push(drive(first, &ended_sender));
    recorded.opened();
    shared.enter(SubchannelState::Ready(open.clone()));
    loop {
        tokio::select! {
            Some(Ended { connection, useful, reason }) = ended.recv() => {
                was_useful |= useful;
                recorded.closed(&reason);
                open.retain(|other| !Weak::ptr_eq(&Arc::downgrade(other), &connection));
                if open.is_empty() {
                    break;
                }
            }
            Some(more) = one_more(shared, &open) => {
                open.push(drive(more, &ended_sender));
                recorded.opened();
            }
            else => break,
        }
        shared.enter(SubchannelState::Ready(open.clone()));
    }
    was_useful || since.elapsed() >= SHORT_LIVED
}

/// A connection that takes no more requests.
struct Ended {
    connection: Weak<Connection>,
    useful: bool,
    reason: DisconnectReason,
}

/// The open connections that metrics have counted. The drop counts them as ended by the channel.
struct RecordedConnections<'a> {
    shared: &'a SubchannelShared,
    open: u32,
}

impl<'a> RecordedConnections<'a> {
    fn new(shared: &'a SubchannelShared) -> Self {
        Self { shared, open: 0 }
    }

    fn opened(&mut self) {
        if let Some(metrics) = self.shared.metrics.get() {
            metrics.connected();
            self.open += 1;
        }
    }

    fn closed(&mut self, reason: &DisconnectReason) {
        // A connection from before the first recorder was not counted.
        if self.open > 0
            && let Some(metrics) = self.shared.metrics.get()
        {
            metrics.disconnected(reason);
            self.open -= 1;
        }
    }
}

impl Drop for RecordedConnections<'_> {
    fn drop(&mut self) {
        while self.open > 0 {
            self.closed(&DisconnectReason::Shutdown);
        }
    }
}

async fn dial_once(
    shared: &SubchannelShared,
) -> Result<(Arc<Connection>, ConnectionDriver), DialError> {
    dial(
        shared.address,
        &shared.security,
        shared.keepalive,
        &shared.calls,
    )
    .await
}

/// Logs the failure of a security handshake once per text: an operator must fix it.
fn log_security(shared: &SubchannelShared, error: &DialError, logged: &mut Option<String>) {
    if let DialError::Security(error) = error {
        let text = error.to_string();
        if logged.as_ref() != Some(&text) {
            tracing::warn!(target: "oxds::subchannel", address = %shared.address, error = %text, "security handshake failed");
            *logged = Some(text);
        }
    }
}

fn count_failure(shared: &SubchannelShared) {
    if let Some(metrics) = shared.metrics.get() {
        metrics.failed();
    }
}

/// Drives a connection in its own task, which outlives the subchannel while an RPC needs it.
fn drive(
    (connection, mut driver): (Arc<Connection>, ConnectionDriver),
    ended: &mpsc::UnboundedSender<Ended>,
) -> Arc<Connection> {
    // Weak, because the socket closes when the last handle is dropped: the task holds none.
    let weak = Arc::downgrade(&connection);
    let ended = ended.clone();
    tokio::spawn(async move {
        driver.until_retired().await;
        let useful = weak
            .upgrade()
            .is_some_and(|connection| connection.was_useful());
        // The endpoint is dialled again while the calls of this connection go on.
        drop(ended.send(Ended {
            connection: weak,
            useful,
            reason: driver.reason(),
        }));
        driver.await;
    });
    connection
}

/// Waits until every open connection is full, then dials another.
async fn one_more(
    shared: &SubchannelShared,
    open: &Connections,
) -> Option<(Arc<Connection>, ConnectionDriver)> {
    loop {
        shared.grow.notified().await;
        // gRFC A105: another connection only if all are at MAX_CONCURRENT_STREAMS.
        let full = open.iter().all(|connection| !connection.has_room());
        if full && open.len() < MAX_CONNECTIONS {
            match dial_once(shared).await {
                Ok(more) => return Some(more),
                // The subchannel stays ready with the open connections; attempts are a second apart.
                Err(_) => {
                    count_failure(shared);
                    sleep(SHORT_LIVED).await;
                }
            }
        }
    }
}

async fn until_stopped(stopped: &mut Stopped, automaton: impl Future<Output = Infallible>) {
    tokio::select! {
        biased;
        _ = stopped => {}
        never = automaton => match never {},
    }
}
