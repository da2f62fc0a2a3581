//! What is served, published to every session without a lock on the way.
//!
//! ```text
//!  writer ──ChangeSet──▶ Cache ──arc-swap──▶ Arc<Snapshot> ◀──load── sessions
//!                          └─ index: (kind, name) → sessions ──wake──▶
//! ```
//!
//! One writer at a time makes the next snapshot, puts it in place and wakes the sessions that watch something that
//! changed. It never touches a socket, and waits for nobody. A session that is woken loads the snapshot and asks its
//! machine what to send.

mod index;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use arc_swap::ArcSwap;
use oxds_core::session::Interest;
use oxds_core::snapshot::{ChangeSet, Limits, Revision, Snapshot};
use oxds_types::Kind;
use tokio_util::sync::CancellationToken;

use index::Index;

/// The resources that servers serve. A handle: clones share one state.
///
/// ```
/// use std::sync::Arc;
/// use oxds_core::snapshot::{ChangeSet, Resource};
/// use oxds_server::Cache;
/// use oxds_types::Kind;
///
/// let cache = Cache::new();
/// cache.apply(ChangeSet {
///     upserts: vec![Arc::new(Resource::new(Kind::CLUSTER, "blue", b"\x0a\x04blue"))],
///     ..ChangeSet::default()
/// });
/// assert!(cache.snapshot().get(&Kind::CLUSTER, "blue").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Cache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    snapshot: ArcSwap<Snapshot>,
    /// Held while the next snapshot is made: change sets come one after the other.
    writer: Mutex<()>,
    index: Index,
    /// Cancelled when something was loaded: who waits for that is told once.
    loaded: CancellationToken,
}

impl Cache {
    /// A cache that nothing has been loaded into: sessions wait until the first change set, be it an empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// The same, with other limits than the default ones.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            snapshot: ArcSwap::new(Snapshot::with_limits(limits)),
            writer: Mutex::new(()),
            index: Index::default(),
            loaded: CancellationToken::new(),
        }))
    }

    /// Applies a change set as one (S-69), wakes the sessions it concerns, and returns what is served now.
    ///
    /// An empty change set, where nothing was loaded before, says that there is nothing.
    pub fn apply(&self, changes: ChangeSet) -> Arc<Snapshot> {
        let _writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.0.snapshot.load_full();
        let (after, changed) = before.apply(changes);
        if Arc::ptr_eq(&before, &after) {
            return after;
        }
        self.0.snapshot.store(Arc::clone(&after));
        if before.is_loaded() {
            self.0.index.wake(&changed);
        } else {
            self.0.index.wake_all();
            self.0.loaded.cancel();
        }
        after
    }

    /// What is served now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.load_full()
    }

    /// The same for a reader that is done with it at once.
    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.0.snapshot.load()
    }

    /// Waits until something, be it an empty configuration, has been loaded.
    pub async fn loaded(&self) {
        self.0.loaded.cancelled().await;
    }

    /// How often a session was woken since the cache was made.
    #[must_use]
    pub fn wakeups(&self) -> u64 {
        self.0.index.wakeups()
    }

    /// Enrols a session, which is woken from now on for what it watches.
    pub(crate) fn enrol(&self) -> Watcher {
        let (id, waker) = self.0.index.enrol();
        Watcher {
            cache: self.clone(),
            id,
            waker,
            watched: HashSet::new(),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

/// A session's place in the index. Dropping it strikes the session out.
#[derive(Debug)]
pub(crate) struct Watcher {
    cache: Cache,
    id: index::Id,
    waker: Arc<futures_util::task::AtomicWaker>,
    /// What it is entered under, to be struck out.
    watched: HashSet<(Kind, Interest)>,
}

impl Watcher {
    /// Says whom to wake. Call before loading the snapshot: what is published afterwards wakes.
    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    /// Waits until what is served is not at this revision any more, and this session was woken for it.
    pub(crate) async fn changed(&self, seen: Revision) {
        std::future::poll_fn(|cx| {
            self.register(cx.waker());
            if self.cache.load().revision() == seen {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// From now on a change of this wakes.
    pub(crate) fn watch(&mut self, kind: Kind, interest: Interest) {
        self.cache.0.index.insert(self.id, &kind, &interest);
        self.watched.insert((kind, interest));
    }

    /// A change of this need not wake any more.
    pub(crate) fn unwatch(&mut self, kind: Kind, interest: Interest) {
        self.cache.0.index.remove(self.id, &kind, &interest);
        self.watched.remove(&(kind, interest));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.0.index.strike(self.id, &self.watched);
    }
}
