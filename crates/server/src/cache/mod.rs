//! What is served, published to every session without a lock on the way.
//!
//! ```text
//!                        ┌─▶ View of all nodes ──arc-swap──▶ Arc<Snapshot> ◀──load── sessions
//!  writer ──update──▶ Cache                └─ index: (kind, name) → sessions ──wake──▶
//!                        └─▶ View of the nodes in groups …       (as many as there are memberships with a client)
//! ```
//!
//! One writer at a time makes the next snapshot, puts it in place and wakes the sessions that watch something that
//! changed. It never touches a socket, and waits for nobody. A session that is woken loads the snapshot and asks its
//! machine what to send.
//!
//! A view lives as long as somebody looks at it. The next node of its membership has it made again, from the root's
//! snapshot and what the groups put over it.

mod index;
mod nodes;
mod notifier;
mod view;
mod watchers;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use oxds_core::group::{GroupUpdate, Groups, Membership, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Limits, Resource, Snapshot};
use oxds_types::ResourceType;
use oxds_types::discovery::Node;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use index::{Index, Wakeups};
use nodes::NodeRegistry;
pub(crate) use notifier::ChangeNotifier;
pub(crate) use view::{View, Watcher};

/// The resources that servers serve. A handle: clones share one state.
///
/// ```
/// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
/// use oxds_core::snapshot::{ChangeSet, Resource};
/// use oxds_server::Cache;
/// use oxds_types::ResourceType;
///
/// let cache = Cache::new();
/// let blue = Cluster { name: "blue".into(), ..Cluster::default() };
/// cache.apply(ChangeSet::default().put(Resource::of(&blue)?));
/// assert!(cache.snapshot().get(&ResourceType::CLUSTER, "blue").is_some());
/// # Ok::<_, oxds_types::codec::InvalidMessage>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Arc<View>,
    /// Held while the next state is made: updates come one after the other.
    grouped: Mutex<Grouped>,
    wakeups: Arc<Wakeups>,
    /// Notified when a subscription is added or removed.
    subscriptions: Arc<Notify>,
    node_registry: Arc<NodeRegistry>,
    /// Grows when nodes may be in other groups than before.
    memberships: AtomicU64,
    /// Cancelled when something was loaded: who waits for that is told once.
    loaded: CancellationToken,
    notifier: Arc<ChangeNotifier>,
}

/// What is not for all nodes.
#[derive(Debug, Default)]
struct Grouped {
    groups: Groups,
    views: HashMap<Membership, Weak<View>>,
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
        let wakeups = Arc::new(Wakeups::default());
        let subscriptions = Arc::new(Notify::new());
        let index = Index::new(Arc::clone(&wakeups), Arc::clone(&subscriptions));
        Self(Arc::new(Inner {
            root: View::new(Membership::default(), Snapshot::with_limits(limits), index),
            grouped: Mutex::default(),
            wakeups,
            subscriptions,
            node_registry: Arc::default(),
            memberships: AtomicU64::new(0),
            loaded: CancellationToken::new(),
            notifier: Arc::default(),
        }))
    }

    /// Applies a change set as one (S-69), wakes the sessions it concerns, and returns what nodes see that are in no
    /// group.
    ///
    /// An empty change set, where nothing was loaded before, says that there is nothing.
    pub fn apply(&self, changes: ChangeSet) -> Arc<Snapshot> {
        self.update(changes, Vec::new())
    }

    /// The same, together with changes of groups (S-74): every session sees all that concerns it at once.
    ///
    /// Costs O(changes) for every membership that has a session. Where it changes who is in which group, the streams
    /// of nodes whose groups are others now are ended, and the clients connect again.
    pub fn update(&self, changes: ChangeSet, groups: Vec<GroupUpdate>) -> Arc<Snapshot> {
        self.write(|_, _| (Some(changes), groups))
    }

    /// Serves exactly these to all nodes, besides what groups have. What is equal to what is served is no change.
    pub fn replace<R: Into<Arc<Resource>>>(
        &self,
        resources: impl IntoIterator<Item = R>,
    ) -> Arc<Snapshot> {
        self.write(|root, _| {
            (
                Some(ChangeSet::replacing(root, None, resources)),
                Vec::new(),
            )
        })
    }

    /// The same for one kind; the others stay as they are.
    pub fn replace_type<R: Into<Arc<Resource>>>(
        &self,
        resource_type: &ResourceType,
        resources: impl IntoIterator<Item = R>,
    ) -> Arc<Snapshot> {
        self.write(|root, _| {
            let changes = ChangeSet::replacing(root, Some(resource_type), resources);
            (Some(changes), Vec::new())
        })
    }

    /// Serves exactly these to the nodes that match, besides what all nodes see or instead of it (S-74).
    ///
    /// No client is answered before what all nodes see was loaded, be it nothing.
    pub fn replace_group<R: Into<Arc<Resource>>>(
        &self,
        name: &str,
        matcher: NodeMatcher,
        resources: impl IntoIterator<Item = R>,
    ) {
        self.write(|_, groups| (None, vec![groups.replacing(name, Some(matcher), resources)]));
    }

    /// Serves a group to nobody any more, and forgets what it has.
    pub fn remove_group(&self, name: &str) {
        let nothing: [Arc<Resource>; 0] = [];
        self.write(|_, groups| (None, vec![groups.replacing(name, None, nothing)]));
    }

    /// Makes the next state out of the present one.
    fn write(
        &self,
        next: impl FnOnce(&Snapshot, &Groups) -> (Option<ChangeSet>, Vec<GroupUpdate>),
    ) -> Arc<Snapshot> {
        let mut grouped = self.grouped();
        let before = self.0.root.snapshot();
        let (changes, updates) = next(&before, &grouped.groups);
        let (root, changed) = match changes {
            Some(changes) => self.0.root.apply(changes),
            None => (Arc::clone(&before), Vec::new()),
        };
        let touched = grouped.groups.update(updates);
        let changed: Vec<_> = changed
            .into_iter()
            .map(|one| (one.resource_type, one.name))
            .collect();
        let Grouped { groups, views } = &mut *grouped;
        views.retain(|_, view| view.strong_count() > 0);
        if !touched.matchers.is_empty() {
            self.0.memberships.fetch_add(1, Relaxed);
        }
        for view in views.values().filter_map(Weak::upgrade) {
            if before.is_loaded() {
                let seen = groups.seen_by(view.members(), &root, &changed, &touched);
                if !seen.is_empty() {
                    view.apply(seen);
                }
            } else if root.is_loaded() {
                view.load_first(root.overlaid(groups.overlay(view.members())));
            }
        }
        drop(grouped);
        self.0
            .wakeups
            .add(self.0.node_registry.wake(&touched.matchers));
        if root.is_loaded() {
            self.0.loaded.cancel();
        }
        self.0.notifier.notify();
        root
    }

    /// What nodes see that are in no group.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.root.snapshot()
    }

    /// What a node sees.
    #[must_use]
    pub fn snapshot_for(&self, node: &Node) -> Arc<Snapshot> {
        self.view(node).snapshot()
    }

    /// The groups that a node is in, the most specific first.
    #[must_use]
    pub fn groups_of(&self, node: &Node) -> Vec<Arc<str>> {
        self.grouped().groups.of(node).to_vec()
    }

    /// What a group has, whoever sees it.
    pub(crate) fn of_group(
        &self,
        group: &str,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<Arc<Resource>> {
        self.grouped()
            .groups
            .get(group, resource_type, name)
            .cloned()
    }

    /// The groups there are, with how many resources each has.
    pub(crate) fn groups(&self) -> Vec<(Arc<str>, usize)> {
        let grouped = self.grouped();
        let groups = grouped.groups.iter();
        groups
            .map(|(name, _, resources)| (Arc::clone(name), resources))
            .collect()
    }

    /// A number that changes whenever nodes may be in other groups than before.
    pub(crate) fn memberships(&self) -> u64 {
        self.0.memberships.load(Relaxed)
    }

    /// What a node looks at: always the same for nodes of the same groups.
    pub(crate) fn view(&self, node: &Node) -> Arc<View> {
        let mut grouped = self.grouped();
        let Grouped { groups, views } = &mut *grouped;
        let members = groups.of(node);
        if members.is_empty() {
            return Arc::clone(&self.0.root);
        }
        if let Some(view) = views.get(&members).and_then(Weak::upgrade) {
            return view;
        }
        let mut snapshot = self.0.root.snapshot();
        if snapshot.is_loaded() {
            snapshot = snapshot.overlaid(groups.overlay(&members));
        }
        let wakeups = Arc::clone(&self.0.wakeups);
        let index = Index::new(wakeups, Arc::clone(&self.0.subscriptions));
        let view = View::new(Arc::clone(&members), snapshot, index);
        views.insert(members, Arc::downgrade(&view));
        view
    }

    /// Enrols the session of a node with what it looks at. Wakes it also when it may have to look at something else.
    pub(crate) fn register_session(&self, node: &Node) -> Watcher {
        self.view(node).register_node(&self.0.node_registry, node)
    }

    /// All that nodes look at: first what those do that are in no group.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        let grouped = self.grouped();
        let views = grouped.views.values().filter_map(Weak::upgrade);
        std::iter::once(Arc::clone(&self.0.root))
            .chain(views)
            .collect()
    }

    /// Beats when something is published, and with whatever else the status tells.
    pub(crate) fn notifier(&self) -> &Arc<ChangeNotifier> {
        &self.0.notifier
    }

    /// What nodes look at that are in no group.
    pub(crate) fn root(&self) -> &Arc<View> {
        &self.0.root
    }

    /// Waits until a subscription was added or removed since the last call returned. There may be one caller at a time.
    pub(crate) async fn subscriptions_changed(&self) {
        self.0.subscriptions.notified().await;
    }

    /// Waits until something, be it an empty configuration, has been loaded.
    pub async fn loaded(&self) {
        self.0.loaded.cancelled().await;
    }

    /// How often a session was woken since the cache was made.
    #[must_use]
    pub fn wakeups(&self) -> u64 {
        self.0.wakeups.get()
    }

    fn grouped(&self) -> MutexGuard<'_, Grouped> {
        // A panic in between leaves views that were not told: the next update of the same keys tells them.
        self.0
            .grouped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
