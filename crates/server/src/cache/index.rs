//! The reverse index: who must be woken when a resource changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use oxds_core::session::Interest;
use oxds_core::snapshot::Changed;
use oxds_types::Kind;

/// Names a session within the index.
pub(super) type Id = u64;

/// What a session is entered under: in trees, which take less room than tables of hashes and are made at once of names
/// that come in order.
pub(super) type Watched = HashMap<Kind, BTreeSet<Interest>>;

/// Entered by sessions when their subscription changes, read by the writer when resources do.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Mutex<Entries>,
    wakeups: Arc<Wakeups>,
}

/// How often sessions were woken, counted for all indexes of a cache.
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
struct Entries {
    next: Id,
    sessions: HashMap<Id, Arc<AtomicWaker>>,
    kinds: HashMap<Kind, Watchers>,
}

/// Who watches a kind.
#[derive(Debug, Default)]
struct Watchers {
    all: HashSet<Id>,
    names: HashMap<Arc<str>, Ids>,
}

/// Sessions, in order: ids grow, so nearly every one is added at the end. There is one of these for every name that is
/// watched, and every name of every session is in one: hence not a set of hashes.
#[derive(Debug, Default)]
struct Ids(Vec<Id>);

impl Ids {
    fn insert(&mut self, id: Id) {
        if let Err(at) = self.0.binary_search(&id) {
            self.0.insert(at, id);
        }
    }

    fn remove(&mut self, id: Id) {
        if let Ok(at) = self.0.binary_search(&id) {
            self.0.remove(at);
        }
    }
}

impl Index {
    pub(super) fn new(wakeups: Arc<Wakeups>) -> Self {
        Self {
            entries: Mutex::default(),
            wakeups,
        }
    }

    pub(super) fn enrol(&self) -> (Id, Arc<AtomicWaker>) {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        let waker = Arc::new(AtomicWaker::new());
        entries.sessions.insert(id, Arc::clone(&waker));
        (id, waker)
    }

    /// Enters a session. Each name is replaced by the same one that whoever else watches it has.
    pub(super) fn insert(&self, id: Id, kind: &Kind, interests: &mut [Interest]) {
        let mut entries = self.lock();
        let watchers = entries.kinds.entry(kind.clone()).or_default();
        for interest in interests {
            let Interest::Name(name) = interest else {
                watchers.all.insert(id);
                continue;
            };
            let entry = watchers.names.entry(Arc::clone(name));
            *name = Arc::clone(entry.key());
            entry.or_default().insert(id);
        }
    }

    pub(super) fn remove<'a>(
        &self,
        id: Id,
        kind: &Kind,
        interests: impl IntoIterator<Item = &'a Interest>,
    ) {
        self.lock().remove(id, kind, interests);
    }

    /// Forgets a session and all that it was entered under.
    pub(super) fn strike(&self, id: Id, watched: &Watched) {
        let mut entries = self.lock();
        entries.sessions.remove(&id);
        for (kind, interests) in watched {
            entries.remove(id, kind, interests);
        }
    }

    /// Wakes whoever watches any of these, once each.
    pub(super) fn wake(&self, changed: &[Changed]) {
        let entries = self.lock();
        let mut concerned: HashSet<Id> = HashSet::new();
        let mut whole_kinds: HashSet<&Kind> = HashSet::new();
        for Changed { kind, name } in changed {
            let Some(watchers) = entries.kinds.get(kind) else {
                continue;
            };
            if whole_kinds.insert(kind) {
                concerned.extend(&watchers.all);
            }
            let named = watchers.names.get(name);
            concerned.extend(named.into_iter().flat_map(|ids| &ids.0));
        }
        self.count(concerned.len());
        for waker in concerned.iter().filter_map(|id| entries.sessions.get(id)) {
            waker.wake();
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

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Each change of the entries is complete in itself, so a panic leaves nothing torn.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Takes what has no watcher any more out of the maps: names come and go, and must not pile up.
    fn remove<'a>(
        &mut self,
        id: Id,
        kind: &Kind,
        interests: impl IntoIterator<Item = &'a Interest>,
    ) {
        let Some(watchers) = self.kinds.get_mut(kind) else {
            return;
        };
        for interest in interests {
            let Interest::Name(name) = interest else {
                watchers.all.remove(&id);
                continue;
            };
            if let Some(ids) = watchers.names.get_mut(name) {
                ids.remove(id);
                if ids.0.is_empty() {
                    watchers.names.remove(name);
                }
            }
        }
        if watchers.all.is_empty() && watchers.names.is_empty() {
            self.kinds.remove(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(kind: Kind, name: &str) -> Changed {
        Changed {
            kind,
            name: name.into(),
        }
    }

    /// Given one session on all clusters, one on cluster a, one on cluster b,
    /// when a changes, only those concerned are woken; a change that concerns one twice wakes it once.
    #[test]
    fn only_those_concerned_are_woken() {
        let index = Index::default();
        let [all, a, b] = [index.enrol().0, index.enrol().0, index.enrol().0];
        let name = |name: &str| Interest::Name(name.into());
        index.insert(all, &Kind::CLUSTER, &mut [Interest::All]);
        index.insert(a, &Kind::CLUSTER, &mut [name("a")]);
        index.insert(b, &Kind::CLUSTER, &mut [name("b")]);

        index.wake(&[changed(Kind::CLUSTER, "a")]);
        assert_eq!(index.wakeups.get(), 2);
        index.wake(&[changed(Kind::LISTENER, "a")]);
        assert_eq!(index.wakeups.get(), 2);
        index.wake(&[changed(Kind::CLUSTER, "a"), changed(Kind::CLUSTER, "b")]);
        assert_eq!(index.wakeups.get(), 5);
    }

    /// Given sessions that came, watched and went, nothing of them is left.
    #[test]
    fn what_is_struck_out_leaves_nothing() {
        let index = Index::default();
        let (id, _) = index.enrol();
        let watched = HashMap::from([
            (Kind::CLUSTER, BTreeSet::from([Interest::All])),
            (Kind::ENDPOINT, BTreeSet::from([Interest::Name("a".into())])),
        ]);
        for (kind, interests) in &watched {
            let mut interests: Vec<_> = interests.iter().cloned().collect();
            index.insert(id, kind, &mut interests);
        }
        index.strike(id, &watched);
        let entries = index.lock();
        assert!(entries.sessions.is_empty() && entries.kinds.is_empty());
    }
}
