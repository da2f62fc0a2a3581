//! The cache: the resources to serve, published to every session without a lock on the read path.
//!
//! ```text
//!                        ┌─▶ View of nodes without a group ──arc-swap──▶ Arc<Snapshot> ◀──load── sessions
//!  writer ──update──▶ Cache                └─ index: (type, name) → sessions ──wake──▶
//!                        └─▶ View of the nodes in groups …       (one per membership with a client)
//! ```
//!
//! One writer at a time creates the next snapshot, publishes it, and wakes the sessions that watch a changed resource.
//! It writes to no socket and waits for no client. A woken session loads the snapshot and decides what to send.
//!
//! A view lives while a session uses it. For the next node of the same membership the cache creates it again, from the
//! snapshot of the root view and the resources of the groups.

mod convergence;
mod index;
mod majors;
mod nodes;
mod notifier;
mod view;
mod watchers;

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use oxds_core::group::{Definition, GroupUpdate, Groups, Membership, NodeMatcher};
use oxds_core::rollout::{ChangeSort, RolloutContents, RolloutSource};
use oxds_core::snapshot::{
    Awaited, ChangeSet, ChangedResource, Limits, Resource, ResourceKey, Snapshot,
};
use oxds_types::discovery::Node;
use oxds_types::{ResourceType, Version};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use convergence::{Answers, Convergence};
use index::{Index, Wakeups};
pub use majors::{OlderMajors, OlderMajorsError};
use nodes::NodeRegistry;
pub(crate) use notifier::ChangeNotifier;
use view::NextSnapshot;
pub(crate) use view::{View, Watcher};

/// The resources that servers serve. A cheap handle: clones share one state.
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
pub struct Cache(Arc<CacheState>);

#[derive(Debug)]
struct CacheState {
    /// View of nodes without a group.
    root: Arc<View>,
    /// Locked while the next state is created, so updates are serial.
    grouped: Mutex<Grouped>,
    wakeups: Arc<Wakeups>,
    convergence: Arc<Convergence>,
    /// Notified when a subscription is added or removed.
    subscriptions: Arc<Notify>,
    node_registry: Arc<NodeRegistry>,
    /// Incremented when nodes may be in other groups than before.
    memberships: AtomicU64,
    /// Cancelled by the first load.
    loaded: CancellationToken,
    notifier: Arc<ChangeNotifier>,
    majors: OlderMajors,
}

/// Groups, and the views of nodes in groups.
#[derive(Debug, Default)]
struct Grouped {
    groups: Groups,
    views: HashMap<Membership, Weak<View>>,
}

impl Cache {
    /// Returns a cache without a configuration: sessions wait for the first change set, which may be empty (S-26).
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Returns such a cache with other limits than the default ones.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self::with_majors(limits, OlderMajors::default())
    }

    /// Returns such a cache that also serves the older majors of resource types (V-54). Each change is translated and
    /// encoded once per major.
    #[must_use]
    pub fn with_majors(limits: Limits, majors: OlderMajors) -> Self {
        let wakeups = Arc::new(Wakeups::default());
        let subscriptions = Arc::new(Notify::new());
        let notifier = Arc::<ChangeNotifier>::default();
        let convergence = Arc::new(Convergence::new(Arc::clone(&notifier)));
        let index = Index::new(
            Arc::clone(&wakeups),
            Arc::clone(&convergence),
            Arc::clone(&subscriptions),
        );
        Self(Arc::new(CacheState {
            root: View::new(Membership::default(), Snapshot::with_limits(limits), index),
            grouped: Mutex::default(),
            wakeups,
            convergence,
            subscriptions,
            node_registry: Arc::default(),
            memberships: AtomicU64::new(0),
            loaded: CancellationToken::new(),
            notifier,
            majors,
        }))
    }

    /// Applies a change set atomically (S-69), and wakes the sessions that watch a changed resource. Returns the
    /// snapshot of nodes without a group.
    ///
    /// As the first change set, an empty one loads an empty configuration (S-27).
    pub fn apply(&self, changes: ChangeSet) -> Arc<Snapshot> {
        self.update(changes, Vec::new())
    }

    /// Applies a change set and changes of groups atomically (S-74). Returns the snapshot of nodes without a group.
    ///
    /// Costs O(changes) for every membership with a session. If the update moves a node to other groups, the server
    /// ends its streams, and the client reconnects.
    pub fn update(&self, changes: ChangeSet, groups: Vec<GroupUpdate>) -> Arc<Snapshot> {
        self.update_from(RolloutSource::default(), changes, groups)
    }

    /// Applies an update with its source, for the history.
    pub(crate) fn update_from(
        &self,
        source: RolloutSource,
        changes: ChangeSet,
        groups: Vec<GroupUpdate>,
    ) -> Arc<Snapshot> {
        self.write(source, |_, _| (Some(changes), groups))
    }

    /// Replaces the resources for all nodes; resources of groups stay. A resource with equal content is not a change.
    pub fn replace<R: Into<Arc<Resource>>>(
        &self,
        resources: impl IntoIterator<Item = R>,
    ) -> Arc<Snapshot> {
        self.write(RolloutSource::default(), |root, _| {
            (
                Some(ChangeSet::replacing(root, None, resources)),
                Vec::new(),
            )
        })
    }

    /// Replaces the resources of one type for all nodes; other types stay.
    pub fn replace_type<R: Into<Arc<Resource>>>(
        &self,
        resource_type: &ResourceType,
        resources: impl IntoIterator<Item = R>,
    ) -> Arc<Snapshot> {
        self.write(RolloutSource::default(), |root, _| {
            let changes = ChangeSet::replacing(root, Some(resource_type), resources);
            (Some(changes), Vec::new())
        })
    }

    /// Replaces the resources of a group. Matching nodes see them in addition to the resources for all nodes; a
    /// resource of the group hides one of the same type and name (S-74).
    ///
    /// Clients get no response before the resources for all nodes are loaded, with an empty change set if there are
    /// none.
    pub fn replace_group<R: Into<Arc<Resource>>>(
        &self,
        name: &str,
        matcher: NodeMatcher,
        resources: impl IntoIterator<Item = R>,
    ) {
        self.write(RolloutSource::default(), |_, groups| {
            (None, vec![groups.replacing(name, Some(matcher), resources)])
        });
    }

    /// Removes a group and its resources.
    pub fn remove_group(&self, name: &str) {
        let nothing: [Arc<Resource>; 0] = [];
        self.write(RolloutSource::default(), |_, groups| {
            (None, vec![groups.replacing(name, None, nothing)])
        });
    }

    /// Creates and publishes the next state.
    fn write(
        &self,
        source: RolloutSource,
        next: impl FnOnce(&Snapshot, &Groups) -> (Option<ChangeSet>, Vec<GroupUpdate>),
    ) -> Arc<Snapshot> {
        let mut grouped = self.grouped();
        let (root, matchers) = self.publish(&mut grouped, source, next);
        drop(grouped);
        self.0.wakeups.add(self.0.node_registry.wake(&matchers));
        if root.is_loaded() {
            self.0.loaded.cancel();
        }
        self.0.notifier.notify();
        root
    }

    /// Publishes the next state, and wakes the sessions that it concerns. Returns the snapshot of nodes without a
    /// group, and the matchers of groups that have changed.
    fn publish(
        &self,
        grouped: &mut Grouped,
        source: RolloutSource,
        next: impl FnOnce(&Snapshot, &Groups) -> (Option<ChangeSet>, Vec<GroupUpdate>),
    ) -> (Arc<Snapshot>, Vec<NodeMatcher>) {
        let before = self.0.root.snapshot();
        let (changes, mut updates) = next(&before, &grouped.groups);
        let has_changes = changes.is_some();
        let changes = changes.map(|changes| self.0.majors.expand(changes));
        for update in &mut updates {
            update.changes = self.0.majors.expand(mem::take(&mut update.changes));
        }
        updates.iter().for_each(warn_of_user_agent);
        let next = self.0.root.next(changes.unwrap_or_default());
        let contents = contents(&next, &grouped.groups, &updates);
        let changed: Vec<ResourceKey> = next
            .changed
            .iter()
            .map(|one| (one.resource_type.clone(), Arc::clone(&one.name)))
            .collect();
        // Before any session is woken: its client may answer, or NACK, at once.
        let change = self.0.convergence.begin(source, contents);
        let root = if has_changes {
            self.0.root.publish(next, &change)
        } else {
            Arc::clone(&before)
        };
        let touched = grouped.groups.update(updates);
        let Grouped { groups, views } = grouped;
        views.retain(|_, view| view.strong_count() > 0);
        if !touched.matchers.is_empty() {
            self.0.memberships.fetch_add(1, Relaxed);
        }
        for view in views.values().filter_map(Weak::upgrade) {
            if before.is_loaded() {
                let seen = groups.seen_by(view.members(), &root, &changed, &touched);
                if !seen.is_empty() {
                    view.publish(view.next(seen), &change);
                }
            } else if root.is_loaded() {
                view.load_first(root.overlaid(groups.overlay(view.members())));
            }
        }
        self.0.convergence.woken(&change);
        (root, touched.matchers)
    }

    /// Replaces what the store has not delivered yet, and wakes all sessions if that is a change.
    pub(crate) fn set_awaited(&self, awaited: Awaited) {
        if self.snapshot().set_awaited(awaited) {
            self.views().iter().for_each(|view| view.wake_all());
        }
    }

    /// Returns the snapshot of nodes without a group.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.root.snapshot()
    }

    /// Returns the snapshot of a node.
    #[must_use]
    pub fn snapshot_for(&self, node: &Node) -> Arc<Snapshot> {
        self.view(node).snapshot()
    }

    /// Returns the groups of a node, the most specific first.
    #[must_use]
    pub fn groups_of(&self, node: &Node) -> Vec<Arc<str>> {
        self.grouped().groups.of(node).to_vec()
    }

    /// Returns a resource of a group.
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

    /// Returns the resources of a group, by type and name.
    #[cfg(feature = "page")]
    pub(crate) fn resources_of_group(&self, group: &str) -> Vec<Arc<Resource>> {
        let members: Membership = [Arc::from(group)].into();
        let mut resources = self.grouped().groups.overlay(&members).upserts;
        let key = |one: &Arc<Resource>| (one.resource_type().clone(), Arc::clone(one.name()));
        resources.sort_by_key(key);
        resources
    }

    /// Returns all groups, each with its number of resources.
    pub(crate) fn groups(&self) -> Vec<(Arc<str>, usize)> {
        let grouped = self.grouped();
        let groups = grouped.groups.iter();
        groups
            .map(|(name, _, resources)| (Arc::clone(name), resources))
            .collect()
    }

    /// Returns the version of each group: a hash of its matcher and its resources.
    pub(crate) fn group_versions(&self) -> BTreeMap<Arc<str>, Version> {
        let grouped = self.grouped();
        let versions = grouped.groups.versions();
        versions
            .map(|(name, version)| (Arc::clone(name), version))
            .collect()
    }

    /// Returns a number that changes whenever nodes may be in other groups than before.
    pub(crate) fn memberships(&self) -> u64 {
        self.0.memberships.load(Relaxed)
    }

    /// Returns the view of a node. Nodes of the same groups share one view.
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
        let index = Index::new(
            Arc::clone(&self.0.wakeups),
            Arc::clone(&self.0.convergence),
            Arc::clone(&self.0.subscriptions),
        );
        let view = View::new(Arc::clone(&members), snapshot, index);
        views.insert(members, Arc::downgrade(&view));
        view
    }

    /// Registers the session of a node with its view. The session is also woken when the node may have another view.
    pub(crate) fn register_session(&self, node: &Node) -> Watcher {
        self.view(node).register_node(&self.0.node_registry, node)
    }

    /// Returns all views, first the one of nodes without a group.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        let grouped = self.grouped();
        let views = grouped.views.values().filter_map(Weak::upgrade);
        std::iter::once(Arc::clone(&self.0.root))
            .chain(views)
            .collect()
    }

    /// Returns the older majors of resource types.
    pub(crate) fn majors(&self) -> &OlderMajors {
        &self.0.majors
    }

    /// Returns the changes that clients have not answered yet.
    pub(crate) fn convergence(&self) -> &Convergence {
        &self.0.convergence
    }

    /// Returns the notifier of all changes that the status shows.
    pub(crate) fn notifier(&self) -> &Arc<ChangeNotifier> {
        &self.0.notifier
    }

    /// Returns the view of nodes without a group.
    pub(crate) fn root(&self) -> &Arc<View> {
        &self.0.root
    }

    /// Waits until a subscription was added or removed since the last call returned. There may be one caller at a time.
    pub(crate) async fn subscriptions_changed(&self) {
        self.0.subscriptions.notified().await;
    }

    /// Waits for the first load, which may be of an empty configuration.
    pub async fn loaded(&self) {
        self.0.loaded.cancelled().await;
    }

    /// Returns how often changes have woken a session since the cache was created.
    #[must_use]
    pub fn wakeups(&self) -> u64 {
        self.0.wakeups.get()
    }

    fn grouped(&self) -> MutexGuard<'_, Grouped> {
        // After a panic some views may lack an update; the next update of the same names repairs them.
        self.0
            .grouped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what an update adds, changes and removes.
fn contents(next: &NextSnapshot, groups: &Groups, updates: &[GroupUpdate]) -> RolloutContents {
    let mut contents = RolloutContents::default();
    for ChangedResource {
        resource_type,
        name,
    } in &next.changed
    {
        let exists = |snapshot: &Snapshot| snapshot.get(resource_type, name).is_some();
        let sort = match (exists(&next.before), exists(&next.after)) {
            (_, false) => ChangeSort::Removed,
            (false, true) => ChangeSort::Added,
            (true, true) => ChangeSort::Changed,
        };
        let key = (resource_type.clone(), Arc::clone(name));
        contents.add(sort, &key, None);
    }
    for update in updates {
        let group = &update.name;
        contents.add_changes(&update.changes, Some(group), |key| {
            groups.version(group, key)
        });
    }
    contents
}

/// Warns of a group whose nodes are selected by their user agent (V-51).
fn warn_of_user_agent(update: &GroupUpdate) {
    let Definition::Set(matcher) = &update.definition else {
        return;
    };
    if let Some(pattern) = &matcher.user_agent {
        let pattern = pattern.to_string();
        warn!(group = %update.name, %pattern, "group matches by user agent, which does not say what a client supports: use its features, extensions or versions");
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
