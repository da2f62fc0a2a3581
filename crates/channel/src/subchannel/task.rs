//! The task of a subchannel: dials, holds the connections, backs off.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use oxds_core::ads::Backoff;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::connection::{self, Connection, ConnectionDriver};
use super::state::{Connections, SubchannelShared, SubchannelState};
use crate::random::random;

/// A connection that closes before this age counts as a failed attempt. One second, as the first step
/// of gRPC's connection backoff.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// Most connections to one address (gRFC A105).
const MAX_CONNECTIONS: usize = 10;

type Stopped = oneshot::Receiver<Infallible>;

/// Runs the subchannel's automaton until its handle is dropped.
pub(super) async fn run(shared: Arc<SubchannelShared>, mut stopped: Stopped) {
    let mut backoff = Backoff::default();
    let mut last_was_short_lived = false;
    let automaton = async {
        loop {
            shared.connect.notified().await;
            shared.enter(SubchannelState::Connecting);
            match connection::dial(shared.address, shared.keepalive, &shared.calls).await {
                Ok(first) => {
                    let since = Instant::now();
                    ready(&shared, first).await;
                    let short_lived = since.elapsed() < SHORT_LIVED;
                    // The first short-lived connection is dialled again at once; a second one in a
                    // row backs off, otherwise a backend that accepts and closes causes a hot loop.
                    if short_lived && last_was_short_lived {
                        shared.enter(SubchannelState::Connecting);
                        sleep(backoff.next(random())).await;
                    } else {
                        backoff.reset();
                    }
                    last_was_short_lived = short_lived;
                }
                Err(error) => {
                    // gRPC connection backoff: a failed subchannel stays in TRANSIENT_FAILURE for the
                    // backoff time before it may connect again.
                    shared.enter(SubchannelState::TransientFailure(error));
                    sleep(backoff.next(random())).await;
                }
            }
            shared.enter(SubchannelState::Idle);
        }
    };
    until_stopped(&mut stopped, automaton).await;
    shared.release_connections();
}

/// Stays in state `Ready` until the last connection ends.
async fn ready(shared: &SubchannelShared, first: (Arc<Connection>, ConnectionDriver)) {
    let (ended_sender, mut ended) = mpsc::unbounded_channel();
    let mut open = Connections::new();
    open.push(drive(first, &ended_sender));
    shared.enter(SubchannelState::Ready(open.clone()));
    loop {
        tokio::select! {
            Some(ended) = ended.recv() => {
                open.retain(|connection| !Weak::ptr_eq(&Arc::downgrade(connection), &ended));
                if open.is_empty() {
                    return;
                }
            }
            Some(more) = one_more(shared, &open) => open.push(drive(more, &ended_sender)),
            else => return,
        }
        shared.enter(SubchannelState::Ready(open.clone()));
    }
}

/// Drives a connection in its own task, which outlives the subchannel while an RPC needs it.
fn drive(
    (connection, driver): (Arc<Connection>, ConnectionDriver),
    ended: &mpsc::UnboundedSender<Weak<Connection>>,
) -> Arc<Connection> {
    // Weak, because the socket closes when the last `SendRequest` is dropped: the task holds none.
    let weak = Arc::downgrade(&connection);
    let ended = ended.clone();
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(target: "oxds::subchannel", %error, "connection ended");
        }
        drop(ended.send(weak));
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
            match connection::dial(shared.address, shared.keepalive, &shared.calls).await {
                Ok(more) => return Some(more),
                // The subchannel stays ready with the open connections; attempts are a second apart.
                Err(_) => sleep(SHORT_LIVED).await,
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
