//! Who watches the resources of one kind.
//!
//! ```text
//!   name ──▶ sessions that watch it, and sets that it is in
//!                                     set ──▶ sessions that watch all of it
//! ```
//!
//! Names that are asked for together, as the first request of a stream does, are entered together: the replicas of a
//! service ask for the same names, and each of them but the first costs one entry in a set, not one in each name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use oxds_core::session::Interest;

/// Names a session or a set within the index.
pub(super) type Id = u64;

/// Names that are watched together.
type Together = Arc<[Arc<str>]>;

/// Fewer names than this are entered one by one.
const MANY: usize = 16;

/// Who watches a kind.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Ids,
    /// Sessions that are woken for every change, but subscribe to nothing.
    observers: Ids,
    /// Sessions and sets.
    names: HashMap<Arc<str>, Ids>,
    sets: HashMap<Id, Set>,
    by_names: HashMap<Together, Id>,
}

#[derive(Debug)]
struct Set {
    names: Together,
    sessions: Ids,
}

/// What one session watches of a kind, to be taken out by.
#[derive(Debug, Default)]
pub(super) struct Watched {
    all: bool,
    observes: bool,
    names: BTreeSet<Arc<str>>,
    sets: Vec<(Id, Together)>,
}

/// In order: ids grow, so nearly every one is added at the end. There is one of these for every name that is watched:
/// hence not a set of hashes.
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

impl Watched {
    /// Whether the session is woken for every change, without a subscription.
    pub(super) fn observes(&self) -> bool {
        self.observes
    }

    /// All of it.
    pub(super) fn interests(&self) -> Vec<Interest> {
        let together = self.sets.iter().flat_map(|(_, names)| names.iter());
        let names = self.names.iter().chain(together).cloned();
        let all = self.all.then_some(Interest::All);
        all.into_iter().chain(names.map(Interest::Name)).collect()
    }
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.all.0.is_empty() && self.observers.0.is_empty() && self.names.is_empty()
    }

    /// Whether a session subscribes to all resources of the type.
    pub(super) fn wildcard(&self) -> bool {
        !self.all.0.is_empty()
    }

    /// Returns the names that sessions subscribe to.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.keys()
    }

    /// Wakes a session for every change of the type from now on. This is not a subscription.
    pub(super) fn observe(&mut self, id: Id, watched: &mut Watched) {
        self.observers.insert(id);
        watched.observes = true;
    }

    /// Enters a session, which has not watched these before; `new_id` names a set that there has not been.
    pub(super) fn insert(
        &mut self,
        id: Id,
        watched: &mut Watched,
        interests: Vec<Interest>,
        new_id: impl FnOnce() -> Id,
    ) {
        if interests.contains(&Interest::All) {
            self.all.insert(id);
            watched.all = true;
        }
        let names = interests.into_iter().filter_map(|interest| match interest {
            Interest::Name(name) => Some(name),
            Interest::All => None,
        });
        let names: Vec<Arc<str>> = names.collect();
        if names.len() >= MANY {
            watched.sets.push(self.join(id, names, new_id));
        } else {
            let names = names.into_iter().map(|name| self.enter(id, name));
            watched.names.extend(names);
        }
    }

    /// Takes a session out of these.
    pub(super) fn remove(&mut self, id: Id, watched: &mut Watched, interests: &[Interest]) {
        let mut gone: HashSet<&str> = HashSet::new();
        for interest in interests {
            match interest {
                Interest::All => {
                    self.all.remove(id);
                    watched.all = false;
                }
                Interest::Name(name) if watched.names.remove(name) => self.deregister(id, name),
                Interest::Name(name) => drop(gone.insert(name)),
            }
        }
        if gone.is_empty() {
            return;
        }
        // Of a set that it watches in part only, it is entered under each name that stays: it may give up more of them.
        for (set, names) in std::mem::take(&mut watched.sets) {
            if !names.iter().any(|name| gone.contains(&**name)) {
                watched.sets.push((set, names));
                continue;
            }
            let stay = names.iter().filter(|name| !gone.contains(&***name));
            let stay = stay.map(|name| self.enter(id, Arc::clone(name)));
            watched.names.extend(stay);
            self.leave(id, set);
        }
    }

    /// Takes a session out of everything.
    pub(super) fn remove_all(&mut self, id: Id, watched: &Watched) {
        self.all.remove(id);
        self.observers.remove(id);
        watched
            .names
            .iter()
            .for_each(|name| self.deregister(id, name));
        watched
            .sets
            .iter()
            .for_each(|(set, _)| self.leave(id, *set));
    }

    /// The sessions that watch everything.
    pub(super) fn of_all(&self) -> impl Iterator<Item = Id> {
        self.all.0.iter().chain(&self.observers.0).copied()
    }

    /// The sessions that watch a name.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = Id> {
        let ids = self.names.get(name).into_iter().flat_map(|ids| &ids.0);
        ids.flat_map(|id| match self.sets.get(id) {
            Some(set) => &set.sessions.0[..],
            None => std::slice::from_ref(id),
        })
        .copied()
    }

    /// Enters a session or a set under a name, and returns the same name as whoever else watches it has it.
    fn enter(&mut self, id: Id, name: Arc<str>) -> Arc<str> {
        let entry = self.names.entry(name);
        let shared = Arc::clone(entry.key());
        entry.or_default().insert(id);
        shared
    }

    /// Takes it out again, and the name with the last of them: names come and go, and must not pile up.
    fn deregister(&mut self, id: Id, name: &str) {
        if let Some(ids) = self.names.get_mut(name) {
            ids.remove(id);
            if ids.0.is_empty() {
                self.names.remove(name);
            }
        }
    }

    fn join(
        &mut self,
        id: Id,
        names: Vec<Arc<str>>,
        new_id: impl FnOnce() -> Id,
    ) -> (Id, Together) {
        if let Some(set_id) = self.by_names.get(&names[..])
            && let Some(set) = self.sets.get_mut(set_id)
        {
            set.sessions.insert(id);
            return (*set_id, Arc::clone(&set.names));
        }
        let set_id = new_id();
        let names = names.into_iter().map(|name| self.enter(set_id, name));
        let names: Together = names.collect();
        self.by_names.insert(Arc::clone(&names), set_id);
        let set = Set {
            names: Arc::clone(&names),
            sessions: Ids(vec![id]),
        };
        self.sets.insert(set_id, set);
        (set_id, names)
    }

    fn leave(&mut self, id: Id, set_id: Id) {
        let Some(set) = self.sets.get_mut(&set_id) else {
            return;
        };
        set.sessions.remove(id);
        if set.sessions.0.is_empty() {
            let names = Arc::clone(&set.names);
            self.sets.remove(&set_id);
            self.by_names.remove(&names);
            names.iter().for_each(|name| self.deregister(set_id, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> Vec<Interest> {
        range
            .map(|n| Interest::Name(format!("{n:03}").into()))
            .collect()
    }

    fn of(watchers: &Watchers, name: &str) -> Vec<Id> {
        watchers.of(name).collect()
    }

    /// Given three sessions that ask for the same hundred names, one of which gives one up and takes another,
    /// each is found by just what it watches; and when all have gone nothing is left.
    #[test]
    fn p7_who_watches_the_same_names_is_entered_once() {
        let mut watchers = Watchers::default();
        let mut watched: [Watched; 3] = Default::default();
        for (id, watched) in (1..).zip(&mut watched) {
            watchers.insert(id, watched, names(0..100), || 10);
        }
        assert_eq!((watchers.sets.len(), watchers.names["007"].0.len()), (1, 1));
        assert_eq!(of(&watchers, "007"), [1, 2, 3]);

        watchers.remove(2, &mut watched[1], &names(7..8));
        watchers.insert(2, &mut watched[1], names(100..101), || 11);
        assert_eq!(
            (of(&watchers, "007"), of(&watchers, "100")),
            (vec![1, 3], vec![2])
        );
        assert_eq!(of(&watchers, "008"), [2, 1, 3]);
        let mut left = watched[1].interests();
        left.sort();
        assert_eq!(left, [names(0..7), names(8..101)].concat());
        assert_eq!(watched[0].interests(), names(0..100));

        for (id, watched) in (1..).zip(&watched) {
            watchers.remove_all(id, watched);
        }
        assert!(watchers.is_empty() && watchers.sets.is_empty() && watchers.by_names.is_empty());
    }
}
