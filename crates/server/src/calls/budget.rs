//! Memory that clients make the server keep: a budget of bytes for each connection, and one for the server (S-60,
//! S-77).
//!
//! ```text
//!   request being received ┐
//!   node, names, NACKs     ├─▶ share of a call ──▶ budget of its connection ──▶ budget of the server
//!   response to be sent    ┘          ▲                         │                        ▲ │
//!                                     └─ ends the largest share ┴──── over the limit ────┼─┘
//!   totals of load reports ── if they fit ───────────────────────────────────────────────┘
//! ```
//! Load totals outlive the calls that reported them, so no call has a share of them: they get the bytes that are free.
//!
//! Numbers of streams and sizes of requests have limits of their own, but their product is far more than a machine has.
//! The bytes are estimates of the memory, not of the wire: a name costs its entries in maps as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::limits::Limits;

/// A call would make the server keep more than its budget, and no other call of that budget keeps more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory for {}: the limit of {limit} bytes is reached, and this call needs the most",
    match .of { Owner::Connection => "this connection", Owner::Server => "clients" }
)]
pub(crate) struct OverBudget {
    of: Owner,
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Connection,
    Server,
}

/// Reasons for which a call keeps bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryUse {
    /// The request that arrives or is handled.
    Request,
    /// The node of the client.
    Node,
    /// Names of the subscription.
    Names,
    /// Versions that a client claims to have, until it is answered.
    Versions,
    /// Texts of NACKs.
    Nacks,
    /// The response that is not sent yet.
    Response,
}

const KINDS: usize = 6;

/// One budget.
#[derive(Debug)]
pub(crate) struct Budget {
    of: Owner,
    limit: usize,
    used: AtomicUsize,
    shares: Mutex<Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    next: u64,
    by_id: BTreeMap<u64, Arc<ShareState>>,
}

/// The part of a share that its budgets see.
#[derive(Debug)]
struct ShareState {
    used: AtomicUsize,
    /// Whether the share has to go because it is the largest of a full budget.
    ended: AtomicBool,
    end: CancellationToken,
}

/// The budgets of a connection: its own, and the server's.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    connection: Arc<Budget>,
    server: Arc<Budget>,
}

/// Bytes that one call keeps. A dropped share returns them to its budgets.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    state: Arc<ShareState>,
    budgets: Vec<(Arc<Budget>, u64)>,
    kept: [usize; KINDS],
}

impl Budget {
    /// Returns the budget of a server.
    pub(crate) fn of_server(limits: &Limits) -> Arc<Self> {
        Self::new(Owner::Server, limits.client_bytes)
    }

    fn new(of: Owner, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            of,
            limit,
            used: AtomicUsize::new(0),
            shares: Mutex::default(),
        })
    }

    /// Returns the bytes that are kept at present.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Opens a share of this budget alone, for what no connection owns: clients that poll. `end` is cancelled if the
    /// share has to go.
    pub(crate) fn share(self: &Arc<Self>, end: CancellationToken) -> MemoryShare {
        MemoryShare::open(&[self], end)
    }

    /// Takes bytes for load totals. Returns `false`, and takes nothing, if fewer are free.
    pub(crate) fn take_for_loads(&self, bytes: usize) -> bool {
        let taken = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_ok()
    }

    /// Adds load totals from before the server started.
    pub(crate) fn add_loads(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back bytes of load totals.
    pub(crate) fn give_back_loads(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, state: &Arc<ShareState>) -> u64 {
        let mut shares = self.shares();
        let id = shares.next;
        shares.next += 1;
        shares.by_id.insert(id, Arc::clone(state));
        id
    }

    /// Ends the largest share, or returns `false` if that is the share that asks.
    ///
    /// A share is ended once. Its call may take a while to notice: a client that does not read holds it up. Until then
    /// the next largest share is next, so that the bytes beyond the limit are bounded.
    fn make_room(&self, asking: &Arc<ShareState>) -> bool {
        let shares = self.shares();
        let living = shares.by_id.values();
        let living = living.filter(|share| !share.ended.load(Ordering::Relaxed));
        let used = |share: &Arc<ShareState>| share.used.load(Ordering::Relaxed);
        let Some(largest) = living.max_by_key(|share| used(share)) else {
            return false;
        };
        if used(largest) <= used(asking) {
            return false;
        }
        largest.ended.store(true, Ordering::Relaxed);
        largest.end.cancel();
        true
    }
}

impl Budgets {
    /// Returns the budgets of a new connection.
    pub(crate) fn of_connection(server: &Arc<Budget>, limits: &Limits) -> Self {
        Self {
            connection: Budget::new(Owner::Connection, limits.connection_bytes),
            server: Arc::clone(server),
        }
    }

    /// Opens the share of a call. `end` is cancelled if the call has to end.
    pub(crate) fn share(&self, end: CancellationToken) -> MemoryShare {
        MemoryShare::open(&[&self.connection, &self.server], end)
    }
}

impl MemoryShare {
    fn open(budgets: &[&Arc<Budget>], end: CancellationToken) -> Self {
        let state = Arc::new(ShareState {
            used: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            end,
        });
        let budgets = budgets.iter();
        let budgets = budgets.map(|budget| (Arc::clone(budget), budget.register(&state)));
        Self {
            budgets: budgets.collect(),
            state,
            kept: [0; KINDS],
        }
    }

    /// Sets the bytes that the call keeps for one reason. Costs nothing if they have not changed.
    ///
    /// # Errors
    /// A budget is exceeded, and this call keeps the most. It then keeps what it kept before, and should end.
    pub(crate) fn set(&mut self, kept: MemoryUse, bytes: usize) -> Result<(), OverBudget> {
        let slot = kept as usize;
        let before = self.kept[slot];
        if bytes > before {
            self.grow(bytes - before)?;
        } else if bytes < before {
            self.shrink(before - bytes);
        }
        self.kept[slot] = bytes;
        Ok(())
    }

    /// Returns the bytes that the call keeps for one reason.
    pub(crate) fn get(&self, kept: MemoryUse) -> usize {
        self.kept[kept as usize]
    }

    /// Returns the error if another call needed this share's bytes.
    pub(crate) fn ended(&self) -> Option<OverBudget> {
        let ended = self.state.ended.load(Ordering::Relaxed);
        let full = self.budgets.iter().map(|(budget, _)| budget);
        // The fullest of its budgets is the one that ended it.
        let full =
            full.max_by_key(|budget| budget.used().saturating_mul(1000) / budget.limit.max(1));
        full.filter(|_| ended).map(|budget| OverBudget {
            of: budget.of,
            limit: budget.limit,
        })
    }

    fn grow(&self, bytes: usize) -> Result<(), OverBudget> {
        self.state.used.fetch_add(bytes, Ordering::Relaxed);
        for (taken, (budget, _)) in self.budgets.iter().enumerate() {
            let used = budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if used > budget.limit && !budget.make_room(&self.state) {
                for (budget, _) in &self.budgets[..=taken] {
                    budget.used.fetch_sub(bytes, Ordering::Relaxed);
                }
                self.state.used.fetch_sub(bytes, Ordering::Relaxed);
                return Err(OverBudget {
                    of: budget.of,
                    limit: budget.limit,
                });
            }
        }
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        self.state.used.fetch_sub(bytes, Ordering::Relaxed);
        for (budget, _) in &self.budgets {
            budget.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink(self.kept.iter().sum());
        for (budget, id) in &self.budgets {
            budget.shares().by_id.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(connection: usize, server: usize) -> impl Fn() -> Budgets {
        let limits = Limits {
            connection_bytes: connection,
            client_bytes: server,
            ..Limits::default()
        };
        let server = Budget::of_server(&limits);
        move || Budgets::of_connection(&server, &limits)
    }

    /// Given two calls of one connection, when both together need more than its budget, then the larger one ends,
    /// whether it asks or the other.
    #[test]
    fn s60_largest_share_of_a_full_budget_ends() {
        let connection = budgets(100, 1000)();
        let (small, large) = (CancellationToken::new(), CancellationToken::new());
        let mut one = connection.share(small.clone());
        let mut two = connection.share(large.clone());
        one.set(MemoryUse::Node, 30).unwrap();
        two.set(MemoryUse::Names, 60).unwrap();
        let over = two.set(MemoryUse::Names, 80).unwrap_err();
        assert!(
            over.to_string()
                .contains("this connection: the limit of 100 bytes")
        );
        assert_eq!(
            (two.get(MemoryUse::Names), connection.server.used()),
            (60, 90)
        );
        // The smaller call asks for more, and gets it: the larger one goes.
        one.set(MemoryUse::Request, 20).unwrap();
        assert!(large.is_cancelled() && !small.is_cancelled());
        assert_eq!((one.ended(), two.ended()), (None, Some(over)));
        // The larger call has not gone yet. It is not counted as room a second time.
        one.set(MemoryUse::Request, 60).unwrap_err();
        drop(two);
        one.set(MemoryUse::Request, 60).unwrap();
        assert_eq!(connection.server.used(), 90);
        drop(one);
        assert_eq!(connection.server.used(), 0);
    }

    #[test]
    fn s60_connections_share_the_budget_of_the_server() {
        let connect = budgets(100, 150);
        let (one, two) = (connect(), connect());
        let end = CancellationToken::new();
        let mut first = one.share(end.clone());
        let mut second = two.share(CancellationToken::new());
        first.set(MemoryUse::Nacks, 90).unwrap();
        second.set(MemoryUse::Nacks, 50).unwrap();
        second.set(MemoryUse::Nacks, 70).unwrap();
        assert!(end.is_cancelled());
        assert!(
            first
                .ended()
                .unwrap()
                .to_string()
                .contains("clients: the limit of 150")
        );
        first.set(MemoryUse::Nacks, 0).unwrap();
        assert_eq!(one.server.used(), 70);
    }

    /// Given a server with room for 150 bytes, then load totals and calls share them, and neither exceeds them.
    #[test]
    fn s60_load_totals_count_in_the_budget_of_the_server() {
        let connection = budgets(100, 150)();
        let mut call = connection.share(CancellationToken::new());
        call.set(MemoryUse::Node, 90).unwrap();
        let server = Arc::clone(&connection.server);
        assert!(server.take_for_loads(60) && !server.take_for_loads(1));
        call.set(MemoryUse::Names, 1).unwrap_err();
        server.give_back_loads(60);
        call.set(MemoryUse::Names, 10).unwrap();
        assert_eq!(server.used(), 100);
    }
}
