//! Clients that connect again when their stream ends, to any of several servers.
//!
//! ```text
//!            ┌── the next in turn, or the one with the fewest clients
//!   client ──┴─▶ connection ── stream with what it has ──▶ ended by the server ──┐
//!     ▲                                                                          │
//!     └──────────────────────────────────────────────────────────────────────────┘
//! ```

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::connect;
use super::manner::{Commands, Manner};
use super::stream::Stream;
use super::tally::{Counted, Tally};

/// Pause of a client after a server that did not accept its connection.
const PAUSE: Duration = Duration::from_millis(10);

/// Choice of a server, as a load balancer in front of them makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The next one in turn.
    InTurn,
    /// The one with the fewest clients.
    Fewest,
}

/// Counts of streams that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Streams that ended after a response.
    pub(crate) ended: u64,
    /// Connections and streams that ended before a response.
    pub(crate) turned_away: u64,
}

/// The clients. They end when this is dropped.
pub(crate) struct Roamers {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    manner: Manner,
    commands: watch::Sender<Commands>,
    tally: Arc<Tally>,
    distribution: Mutex<Distribution>,
}

impl Roamers {
    pub(crate) fn new(manner: Manner, choice: Choice, addresses: Vec<SocketAddr>) -> Self {
        let distribution = Distribution {
            choice,
            clients: vec![0; addresses.len()],
            addresses,
            next: 0,
            moves: Moves::default(),
        };
        Self {
            shared: Arc::new(Shared {
                manner,
                commands: watch::Sender::default(),
                tally: Arc::default(),
                distribution: Mutex::new(distribution),
            }),
            tasks: JoinSet::new(),
        }
    }

    /// Adds a client with the first request of its first stream, and that of all others.
    pub(crate) fn add(&mut self, first: Bytes, again: Bytes) {
        self.tasks
            .spawn(roam(Arc::clone(&self.shared), first, again));
    }

    /// Adds a server.
    pub(crate) fn join(&self, address: SocketAddr) {
        let mut distribution = self.shared.lock();
        distribution.addresses.push(address);
        distribution.clients.push(0);
    }

    /// Number of clients of each server.
    pub(crate) fn clients(&self) -> Vec<usize> {
        self.shared.lock().clients.clone()
    }

    pub(crate) fn moves(&self) -> Moves {
        self.shared.lock().moves
    }

    /// Responses so far.
    pub(crate) fn mark(&self) -> Counted {
        self.shared.tally.read()
    }

    /// Waits until a count has reached `goal`.
    pub(crate) async fn until(&self, goal: u64, count: fn(&Counted) -> u64) -> Result<(), String> {
        let reached = self
            .shared
            .tally
            .until(super::TIMEOUT, |counted| count(counted) >= goal);
        reached.await.map(drop)
    }
}

/// Servers, and the clients that have chosen each.
struct Distribution {
    choice: Choice,
    addresses: Vec<SocketAddr>,
    clients: Vec<usize>,
    next: usize,
    moves: Moves,
}

impl Distribution {
    fn choose(&mut self) -> (usize, SocketAddr) {
        let chosen = match self.choice {
            Choice::InTurn => self.next % self.addresses.len(),
            Choice::Fewest => {
                // The next in turn among equals.
                let count = self.clients.len();
                let turn = (0..count).map(|step| (self.next + step) % count);
                turn.min_by_key(|&place| self.clients[place]).unwrap_or(0)
            }
        };
        self.next += 1;
        self.clients[chosen] += 1;
        (chosen, self.addresses[chosen])
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Distribution> {
        self.distribution
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stays at a server until the stream ends. Returns whether there was a response.
    async fn stay(&self, address: SocketAddr, request: Bytes) -> bool {
        let mut tasks = JoinSet::new();
        let Ok(mut connection) = connect(address, &self.manner, &mut tasks).await else {
            return false;
        };
        let stream = Stream::open(
            &mut connection,
            address,
            &self.manner,
            self.commands.subscribe(),
            Arc::clone(&self.tally),
        );
        let Ok(mut stream) = stream else {
            return false;
        };
        // Any end is one: the client connects again.
        let _ = stream.talk(request).await;
        stream.is_answered()
    }
}

async fn roam(shared: Arc<Shared>, first: Bytes, again: Bytes) {
    let mut request = first;
    loop {
        let (place, address) = shared.lock().choose();
        let is_answered = shared.stay(address, request.clone()).await;
        {
            let mut distribution = shared.lock();
            distribution.clients[place] -= 1;
            if is_answered {
                distribution.moves.ended += 1;
            } else {
                distribution.moves.turned_away += 1;
            }
        }
        if is_answered {
            request.clone_from(&again);
        } else {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: Choice, clients: &[usize], count: usize) -> Vec<usize> {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut distribution = Distribution {
            choice,
            addresses: vec![address; clients.len()],
            clients: clients.to_vec(),
            next: 0,
            moves: Moves::default(),
        };
        (0..count).map(|_| distribution.choose().0).collect()
    }

    #[test]
    fn gb15_clients_choose_in_turn_or_where_the_fewest_are() {
        assert_eq!(chosen(Choice::InTurn, &[3, 3, 0], 4), [0, 1, 2, 0]);
        assert_eq!(chosen(Choice::Fewest, &[3, 3, 0], 5), [2, 2, 2, 0, 1]);
    }
}
