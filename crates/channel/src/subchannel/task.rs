//! The task of a subchannel: dials, watches over the connections, backs off.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use oxds_core::ads::Backoff;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::connection::{self, Connection, Driver};
use super::{Connections, Shared, State};
use crate::random::random;

/// A connection younger than this at its end counts as a failure: the first backoff step.
const YOUNG: Duration = Duration::from_secs(1);

/// As many connections as gRPC opens to one address (A105).
const MAX_CONNECTIONS: usize = 10;

type Stopped = oneshot::Receiver<Infallible>;

pub(super) async fn run(shared: Arc<Shared>, mut stopped: Stopped) {
    let mut backoff = Backoff::default();
    let mut died_young = false;
    let life = async {
        loop {
            shared.connect.notified().await;
            shared.enter(State::Connecting);
            match connection::dial(shared.address, shared.keepalive, &shared.calls).await {
                Ok(first) => {
                    let since = Instant::now();
                    ready(&shared, first).await;
                    let young = since.elapsed() < YOUNG;
                    if young && died_young {
                        shared.enter(State::Connecting);
                        sleep(backoff.next(random())).await;
                    } else {
                        backoff.reset();
                    }
                    died_young = young;
                }
                Err(error) => {
                    shared.enter(State::TransientFailure(error));
                    sleep(backoff.next(random())).await;
                }
            }
            shared.enter(State::Idle);
        }
    };
    or_stopped(&mut stopped, life).await;
    // Lets go of the connections: each closes when its last RPC ends.
    shared.lock().state = State::Idle;
}

/// Holds the state `Ready` until the last connection ended.
async fn ready(shared: &Shared, first: (Arc<Connection>, Driver)) {
    let (tell, mut ended) = mpsc::unbounded_channel();
    let mut open = Connections::new();
    open.push(drive(first, &tell));
    shared.enter(State::Ready(open.clone()));
    loop {
        tokio::select! {
            Some(ended) = ended.recv() => {
                open.retain(|connection| !Weak::ptr_eq(&Arc::downgrade(connection), &ended));
                if open.is_empty() {
                    return;
                }
            }
            Some(more) = one_more(shared, &open) => open.push(drive(more, &tell)),
            else => return,
        }
        shared.enter(State::Ready(open.clone()));
    }
}

/// Drives a connection in a task of its own, which outlives the subchannel if an RPC does.
fn drive(
    (connection, driver): (Arc<Connection>, Driver),
    ended: &mpsc::UnboundedSender<Weak<Connection>>,
) -> Arc<Connection> {
    // Not an `Arc`: the socket closes because the last sender was dropped.
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
async fn one_more(shared: &Shared, open: &Connections) -> Option<(Arc<Connection>, Driver)> {
    loop {
        shared.grow.notified().await;
        let full = open.iter().all(|connection| !connection.has_room());
        if full && open.len() < MAX_CONNECTIONS {
            match connection::dial(shared.address, shared.keepalive, &shared.calls).await {
                Ok(more) => return Some(more),
                // Those that are open go on; each further attempt keeps its distance.
                Err(_) => sleep(YOUNG).await,
            }
        }
    }
}

async fn or_stopped(stopped: &mut Stopped, life: impl Future<Output = Infallible>) {
    tokio::select! {
        biased;
        _ = stopped => {}
        never = life => match never {},
    }
}
