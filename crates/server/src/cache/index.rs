//! Reverse index: from a changed resource to the sessions to wake.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::session::Interest;
use oxds_core::snapshot::{ChangedResource, Revision};
use oxds_types::ResourceType;
use tokio::sync::Notify;

use super::convergence::{Convergence, OpenChange, SessionWaker};
use super::watchers::{Id, Watched, Watchers};

/// Sessions by the resources that they watch. Sessions change it with their subscription; the writer reads it.
#[derive(Debug)]
pub(super) struct Index {
    entries: Mutex<IndexEntries>,
    wakeups: Arc<Wakeups>,
    convergence: Arc<Convergence>,
    /// Notified when a subscription is added or removed.
    subscriptions: Arc<Notify>,
}

/// Number of wake-ups of sessions, for all indexes of a cache.
#[derive(Debug, Default)]
pub(super) struct Wakeups(AtomicU64);

impl Wakeups {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(super) fn add(&self, woken: usize) {
        self.0.fetch_add(woken as u64, Relaxed);
    }
}

#[derive(Debug, Default)]
struct IndexEntries {
    /// Last id of a session or of a set of names.
    next: Id,
    sessions: HashMap<Id, Arc<SessionWaker>>,
    resource_types: HashMap<ResourceType, Watchers>,
}

impl Index {
    pub(super) fn new(
        wakeups: Arc<Wakeups>,
        convergence: Arc<Convergence>,
        subscriptions: Arc<Notify>,
    ) -> Self {
        Self {
            entries: Mutex::default(),
            wakeups,
            convergence,
            subscriptions,
        }
    }

    /// Registers a session, and returns its id and its waker.
    pub(super) fn register(&self) -> (Id, Arc<SessionWaker>) {
        let mut entries = self.lock();
        let id = new_id(&mut entries.next);
        let waker = Arc::new(SessionWaker::new(Arc::clone(&self.convergence)));
        entries.sessions.insert(id, Arc::clone(&waker));
        (id, waker)
    }

    /// Adds resources to a session, which must not watch them yet.
    pub(super) fn insert(
        &self,
        id: Id,
        resource_type: &ResourceType,
        watched: &mut Watched,
        interests: Vec<Interest>,
    ) {
        let entries = &mut *self.lock();
        let watchers = entries
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        watchers.insert(id, watched, interests, || new_id(&mut entries.next));
        self.subscriptions.notify_one();
    }

    /// Wakes a session for every change of a type from now on. This is not a subscription.
    pub(super) fn observe(&self, id: Id, resource_type: &ResourceType, watched: &mut Watched) {
        let mut entries = self.lock();
        let watchers = entries
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        watchers.observe(id, watched);
    }

    /// Shows for each resource type whether there is a wildcard subscription, and the names that are subscribed to.
    pub(super) fn subscriptions(
        &self,
        mut show: impl FnMut(&ResourceType, bool, &mut dyn Iterator<Item = &Arc<str>>),
    ) {
        let entries = self.lock();
        for (resource_type, watchers) in &entries.resource_types {
            show(resource_type, watchers.wildcard(), &mut watchers.names());
        }
    }

    /// Removes resources from a session.
    pub(super) fn remove(
        &self,
        id: Id,
        resource_type: &ResourceType,
        watched: &mut Watched,
        interests: &[Interest],
    ) {
        self.lock().change(resource_type, |watchers| {
            watchers.remove(id, watched, interests);
        });
        self.subscriptions.notify_one();
    }

    /// Removes a session and everything that it watches.
    pub(super) fn deregister(&self, id: Id, watched: &HashMap<ResourceType, Watched>) {
        let mut entries = self.lock();
        entries.sessions.remove(&id);
        for (resource_type, watched) in watched {
            entries.change(resource_type, |watchers| watchers.remove_all(id, watched));
        }
        self.subscriptions.notify_one();
    }

    /// Wakes every session that watches one of these resources, once. The change made this revision.
    pub(super) fn wake(
        &self,
        changed: &[ChangedResource],
        change: &Arc<OpenChange>,
        revision: Revision,
    ) {
        let entries = self.lock();
        let mut concerned: HashSet<Id> = HashSet::new();
        let mut whole_types: HashSet<&ResourceType> = HashSet::new();
        for ChangedResource {
            resource_type,
            name,
        } in changed
        {
            let Some(watchers) = entries.resource_types.get(resource_type) else {
                continue;
            };
            if whole_types.insert(resource_type) {
                concerned.extend(watchers.of_all());
            }
            concerned.extend(watchers.of(name));
        }
        self.count(concerned.len());
        for waker in concerned.iter().filter_map(|id| entries.sessions.get(id)) {
            waker.wake_for_change(change, revision);
        }
    }

    pub(super) fn wake_all(&self) {
        let entries = self.lock();
        self.count(entries.sessions.len());
        entries.sessions.values().for_each(|waker| waker.wake());
    }

    fn count(&self, woken: usize) {
        self.wakeups.add(woken);
    }

    fn lock(&self) -> MutexGuard<'_, IndexEntries> {
        // Each change leaves complete entries, so poisoning does not matter.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IndexEntries {
    /// Changes the watchers of a type, and removes the type with its last watcher.
    fn change(&mut self, resource_type: &ResourceType, change: impl FnOnce(&mut Watchers)) {
        if let Some(watchers) = self.resource_types.get_mut(resource_type) {
            change(watchers);
            if watchers.is_empty() {
                self.resource_types.remove(resource_type);
            }
        }
    }
}

fn new_id(next: &mut Id) -> Id {
    *next += 1;
    *next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let convergence = Arc::new(Convergence::new(Arc::default()));
        Index::new(Arc::default(), convergence, Arc::default())
    }

    fn changed(resource_type: ResourceType, name: &str) -> ChangedResource {
        ChangedResource {
            resource_type,
            name: name.into(),
        }
    }

    /// Given sessions on all clusters, on cluster `a`, and on cluster `b`: a change wakes the sessions that watch it,
    /// and a session that watches several changed clusters once.
    #[test]
    fn change_wakes_only_sessions_that_watch_it() {
        let index = index();
        let [all, a, b] = [index.register().0, index.register().0, index.register().0];
        let name = |name: &str| Interest::Name(name.into());
        let watch = |id, interest| {
            index.insert(
                id,
                &ResourceType::CLUSTER,
                &mut Watched::default(),
                vec![interest],
            );
        };
        watch(all, Interest::All);
        watch(a, name("a"));
        watch(b, name("b"));

        let convergence = Convergence::new(Arc::default());
        let wake = |resources: &[ChangedResource]| {
            let change = convergence.begin(Default::default(), Default::default());
            index.wake(resources, &change, Revision::UNLOADED);
        };
        wake(&[changed(ResourceType::CLUSTER, "a")]);
        assert_eq!(index.wakeups.get(), 2);
        wake(&[changed(ResourceType::LISTENER, "a")]);
        assert_eq!(index.wakeups.get(), 2);
        wake(&[
            changed(ResourceType::CLUSTER, "a"),
            changed(ResourceType::CLUSTER, "b"),
        ]);
        assert_eq!(index.wakeups.get(), 5);
    }

    /// Given a session that has watched resources: after it is deregistered the index is empty.
    #[test]
    fn deregistered_session_leaves_no_entries() {
        let index = index();
        let (id, _) = index.register();
        let mut watched: HashMap<ResourceType, Watched> = HashMap::new();
        for (resource_type, interest) in [
            (ResourceType::CLUSTER, Interest::All),
            (ResourceType::ENDPOINT, Interest::Name("a".into())),
        ] {
            let of_type = watched.entry(resource_type.clone()).or_default();
            index.insert(id, &resource_type, of_type, vec![interest]);
        }
        index.deregister(id, &watched);
        let entries = index.lock();
        assert!(entries.sessions.is_empty() && entries.resource_types.is_empty());
    }
}
