//! Views: what the nodes of one membership see, and which of their sessions to wake.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arc_swap::{ArcSwap, Guard};
use oxds_core::group::Membership;
use oxds_core::rollout::RolloutNack;
use oxds_core::session::Interest;
use oxds_core::snapshot::{ChangeSet, ChangedResource, Revision, Snapshot};
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::convergence::{Answers, LatestUnanswered, OpenChange, SessionWaker};
use super::index::Index;
use super::nodes::{NodeRegistration, NodeRegistry};
use super::watchers::{Id, Watched};

/// The current snapshot for the nodes of one membership, and the sessions that watch it.
#[derive(Debug)]
pub(crate) struct View {
    /// Groups of the nodes; empty for nodes without a group.
    members: Membership,
    snapshot: ArcSwap<Snapshot>,
    index: Index,
}

/// A snapshot that is not published yet.
#[derive(Debug)]
pub(super) struct NextSnapshot {
    pub(super) before: Arc<Snapshot>,
    pub(super) after: Arc<Snapshot>,
    /// Resources that differ.
    pub(super) changed: Vec<ChangedResource>,
}

impl View {
    pub(super) fn new(members: Membership, snapshot: Arc<Snapshot>, index: Index) -> Arc<Self> {
        Arc::new(Self {
            members,
            snapshot: ArcSwap::new(snapshot),
            index,
        })
    }

    /// Returns the groups of its nodes, the most specific first.
    pub(crate) fn members(&self) -> &Membership {
        &self.members
    }

    /// Returns the current snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns the current snapshot without a reference count, for a short read.
    pub(crate) fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Returns the next snapshot. It has no effect until it is published.
    pub(super) fn next(&self, changes: ChangeSet) -> NextSnapshot {
        let before = self.snapshot.load_full();
        let (after, changed) = before.apply(changes);
        NextSnapshot {
            before,
            after,
            changed,
        }
    }

    /// Publishes the next snapshot, and wakes the sessions that watch a changed resource. One writer at a time, from
    /// [`next`](Self::next) on.
    pub(super) fn publish(&self, next: NextSnapshot, change: &Arc<OpenChange>) -> Arc<Snapshot> {
        let NextSnapshot {
            before,
            after,
            changed,
        } = next;
        if Arc::ptr_eq(&before, &after) {
            return after;
        }
        self.snapshot.store(Arc::clone(&after));
        if before.is_loaded() {
            self.index.wake(&changed, change, after.revision());
        } else {
            self.index.wake_all();
        }
        after
    }

    /// Publishes the first snapshot, and wakes all sessions.
    pub(super) fn load_first(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(snapshot);
        self.index.wake_all();
    }

    /// Wakes all sessions.
    pub(super) fn wake_all(&self) {
        self.index.wake_all();
    }

    /// Shows for each resource type whether there is a wildcard subscription, and the names that are subscribed to.
    pub(crate) fn subscriptions(
        &self,
        show: impl FnMut(&ResourceType, bool, &mut dyn Iterator<Item = &Arc<str>>),
    ) {
        self.index.subscriptions(show);
    }

    /// Registers a session. It is woken for what it watches, see [`Watcher::watch`].
    pub(crate) fn register_session(self: &Arc<Self>) -> Watcher {
        let (id, waker) = self.index.register();
        Watcher {
            view: Arc::clone(self),
            id,
            waker,
            watched: HashMap::new(),
            node: None,
        }
    }

    /// Registers the session of a node. It is also woken when the node may have another view.
    pub(super) fn register_node(
        self: &Arc<Self>,
        nodes: &Arc<NodeRegistry>,
        node: &Node,
    ) -> Watcher {
        let mut watcher = self.register_session();
        watcher.node = Some(nodes.register(node, &watcher.waker));
        watcher
    }
}

/// Registration of a session with a view; deregisters on drop.
#[derive(Debug)]
pub(crate) struct Watcher {
    view: Arc<View>,
    id: Id,
    waker: Arc<SessionWaker>,
    /// Resources that wake the session, by type.
    watched: HashMap<ResourceType, Watched>,
    /// Registration of its node, if a change of groups concerns the session.
    node: Option<NodeRegistration>,
}

impl Watcher {
    /// Returns the view that the session watches.
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Sets the task to wake. Call it before loading the snapshot: then no later change is missed.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// From now on the client of the session answers changes, see [`Convergence`](super::Convergence). Called once.
    pub(crate) fn follow(&self) {
        self.waker.follow(self.view.load().revision());
    }

    /// Returns the latest thing that the client has not answered. `None` if it has answered everything. Read it before
    /// the snapshot that is compared.
    pub(crate) fn latest_unanswered(&self) -> Option<LatestUnanswered> {
        self.waker.latest_unanswered()
    }

    /// Returns a handle to how far the client is.
    pub(crate) fn answers(&self) -> Answers {
        Answers::new(&self.waker)
    }

    /// The client has NACKed a response.
    pub(crate) fn nacked(&self, nack: &RolloutNack) {
        self.waker.nacked(nack);
    }

    /// The client has answered everything up to this.
    pub(crate) fn answered(&self, latest: LatestUnanswered) {
        self.waker.answered(latest);
    }

    /// The client has answered everything of the states up to this revision, and not yet the state that is served.
    pub(crate) fn answered_through(&self, revision: Revision) {
        self.waker.answered_through(revision);
    }

    /// Waits for a change that concerns the session, after revision `seen`.
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

    /// Adds resources to watch, which must not be watched yet.
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

    /// Replaces this registration by another one, and keeps the watched resources.
    pub(crate) fn move_to(&mut self, mut next: Self) {
        for (resource_type, watched) in &self.watched {
            next.watch(resource_type, watched.interests());
            if watched.observes() {
                next.observe(resource_type);
            }
        }
        if self.waker.is_followed() {
            next.follow();
        }
        *self = next;
    }

    /// Removes resources to watch.
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
        self.waker.end();
    }
}
