//! The streams that are open: for the status page, and for their limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use oxds_core::session::Session;
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;

use crate::cache::{Cache, View};

/// One open stream, as others see it.
#[derive(Debug)]
pub(crate) struct Open {
    /// Where the client is, if the transport knows.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) protocol: Protocol,
    /// When it was opened.
    pub(crate) since: Instant,
    /// The stream holds this while it is polled, the status page while it reads: neither for long.
    session: Mutex<Session>,
    /// What the node sees, from the first request on.
    view: OnceLock<Arc<View>>,
}

impl Open {
    pub(crate) fn new(
        peer: Option<SocketAddr>,
        protocol: Protocol,
        since: Instant,
        session: Session,
    ) -> Self {
        Self {
            peer,
            protocol,
            since,
            session: Mutex::new(session),
            view: OnceLock::new(),
        }
    }

    /// Says what the node sees.
    pub(super) fn look_at(&self, view: Arc<View>) {
        // Only the first node of a stream counts, so that nothing is lost if there is one already.
        let _ = self.view.set(view);
    }

    /// What the node sees; before its first request, what nodes see that are in no group.
    pub(crate) fn view<'a>(&'a self, cache: &'a Cache) -> &'a Arc<View> {
        self.view.get().unwrap_or_else(|| cache.root())
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        // A panic within the machine ended its stream; what others may still read of it is only shown.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open streams of a server, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Open>>,
}

/// A stream's place in the table, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Arc<Streams>,
    id: u64,
}

impl Streams {
    /// Takes a place, unless `limit` of them are taken (S-77).
    pub(super) fn enter(self: &Arc<Self>, stream: &Arc<Open>, limit: usize) -> Option<Place> {
        let mut table = self.lock();
        if table.open.len() >= limit {
            return None;
        }
        let id = table.next;
        table.next += 1;
        table.open.insert(id, Arc::clone(stream));
        Some(Place {
            streams: Arc::clone(self),
            id,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// The open streams, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Open>> {
        self.lock().open.values().map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Names the stream in logs.
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.lock().open.remove(&self.id);
    }
}
