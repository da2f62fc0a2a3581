//! What the nodes of one membership see, and which of their sessions to wake.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arc_swap::{ArcSwap, Guard};
use futures_util::task::AtomicWaker;
use oxds_core::group::Membership;
use oxds_core::session::Interest;
use oxds_core::snapshot::{ChangeSet, ChangedResource, Revision, Snapshot};
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::index::Index;
use super::nodes::{Entered, NodeRegistry};
use super::watchers::{Id, Watched};

/// A snapshot that is replaced as a whole, and the sessions that watch it.
#[derive(Debug)]
pub(crate) struct View {
    /// Whose view it is; nobody's groups: that of all other nodes.
    members: Membership,
    snapshot: ArcSwap<Snapshot>,
    index: Index,
}

impl View {
    pub(super) fn new(members: Membership, snapshot: Arc<Snapshot>, index: Index) -> Arc<Self> {
        Arc::new(Self {
            members,
            snapshot: ArcSwap::new(snapshot),
            index,
        })
    }

    /// The groups it is made of, the most specific first.
    pub(crate) fn members(&self) -> &Membership {
        &self.members
    }

    /// What is served now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The same for a reader that is done with it at once.
    pub(crate) fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Puts the next state in place and wakes whom it concerns. One writer at a time.
    pub(super) fn apply(&self, changes: ChangeSet) -> (Arc<Snapshot>, Vec<ChangedResource>) {
        let before = self.snapshot.load_full();
        let (after, changed) = before.apply(changes);
        if Arc::ptr_eq(&before, &after) {
            return (after, changed);
        }
        self.snapshot.store(Arc::clone(&after));
        if before.is_loaded() {
            self.index.wake(&changed);
        } else {
            self.index.wake_all();
        }
        (after, changed)
    }

    /// Puts the first state in place.
    pub(super) fn load_first(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(snapshot);
        self.index.wake_all();
    }

    /// Shows for each resource type whether there is a wildcard subscription, and the names that are subscribed to.
    pub(crate) fn subscriptions(
        &self,
        show: impl FnMut(&ResourceType, bool, &mut dyn Iterator<Item = &Arc<str>>),
    ) {
        self.index.subscriptions(show);
    }

    /// Enrols a session, which is woken from now on for what it watches.
    pub(crate) fn register_session(self: &Arc<Self>) -> Watcher {
        let (id, waker) = self.index.register_session();
        Watcher {
            view: Arc::clone(self),
            id,
            waker,
            watched: HashMap::new(),
            entered: None,
        }
    }

    /// The same for the session of a node that may come to see another view.
    pub(super) fn register_node(
        self: &Arc<Self>,
        node_registry: &Arc<NodeRegistry>,
        node: &Node,
    ) -> Watcher {
        let mut watcher = self.register_session();
        watcher.entered = Some(node_registry.enter(node, &watcher.waker));
        watcher
    }
}

/// A session's place in the index. Dropping it strikes the session out.
#[derive(Debug)]
pub(crate) struct Watcher {
    view: Arc<View>,
    id: Id,
    waker: Arc<AtomicWaker>,
    /// What it is entered under, to be struck out.
    watched: HashMap<ResourceType, Watched>,
    /// Where it is woken from if the node may have come to see another view.
    entered: Option<Entered>,
}

impl Watcher {
    /// What it watches.
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Says whom to wake. Call before loading the snapshot: what is published afterwards wakes.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Waits until what is served is not at this revision any more, and this session was woken for it.
    pub(crate) async fn changed(&self, seen: Revision) {
        std::future::poll_fn(|cx| {
            self.register(cx.waker());
            if self.view.load().revision() == seen {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// From now on a change of these wakes, which did not before.
    pub(crate) fn watch(&mut self, resource_type: &ResourceType, interests: Vec<Interest>) {
        let index = &self.view.index;
        let watched = self.watched.entry(resource_type.clone()).or_default();
        index.insert(self.id, resource_type, watched, interests);
    }

    /// Wakes the session for every change of a type from now on. This is not a subscription.
    pub(crate) fn observe(&mut self, resource_type: &ResourceType) {
        let watched = self.watched.entry(resource_type.clone()).or_default();
        self.view.index.observe(self.id, resource_type, watched);
    }

    /// Goes on in another place, with what it watches.
    pub(crate) fn move_to(&mut self, mut next: Self) {
        for (resource_type, watched) in &self.watched {
            next.watch(resource_type, watched.interests());
            if watched.observes() {
                next.observe(resource_type);
            }
        }
        *self = next;
    }

    /// A change of these need not wake any more.
    pub(crate) fn unwatch(&mut self, resource_type: &ResourceType, interests: &[Interest]) {
        if let Some(watched) = self.watched.get_mut(resource_type) {
            self.view
                .index
                .remove(self.id, resource_type, watched, interests);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.view.index.deregister(self.id, &self.watched);
    }
}
