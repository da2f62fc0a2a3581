//! Watchers of the resources of one type.
//!
//! ```text
//!   name ──▶ sessions that watch it, and sets that contain it
//!                                     set ──▶ sessions that watch all of its names
//! ```
//!
//! Names of one request form a set if there are many. Replicas of a service subscribe to the same names with their
//! first request: the first replica adds the set to each name, and each other replica is one entry in the set.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use oxds_core::session::Interest;

/// Id of a session or of a set, unique within an index.
pub(super) type Id = u64;

/// Names of a set.
type SetNames = Arc<[Arc<str>]>;

/// Names of one request from which on they form a set. Below it a set costs more than it saves.
const MIN_SET: usize = 16;

/// Sessions that watch resources of one type.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    /// Sessions that watch all resources.
    all: Ids,
    /// Sessions that are woken for every change, but subscribe to nothing.
    observers: Ids,
    /// Sessions and sets by name.
    names: HashMap<Arc<str>, Ids>,
    sets: HashMap<Id, NameSet>,
    by_names: HashMap<SetNames, Id>,
}

/// Names that several sessions watch together.
#[derive(Debug)]
struct NameSet {
    names: SetNames,
    sessions: Ids,
}

/// Resources of one type that a session watches.
#[derive(Debug, Default)]
pub(super) struct Watched {
    all: bool,
    observes: bool,
    names: BTreeSet<Arc<str>>,
    sets: Vec<(Id, SetNames)>,
}

/// Sorted ids. Ids increase, so nearly every insertion is at the end. There is one such list per watched name, so a
/// hash set would cost too much memory.
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

    /// Returns everything that the session watches.
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

    /// Adds resources to a session, which must not watch them yet. `new_id` returns the id for a new set.
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
        if names.len() >= MIN_SET {
            watched.sets.push(self.join(id, names, new_id));
        } else {
            let names = names.into_iter().map(|name| self.add_to(id, name));
            watched.names.extend(names);
        }
    }

    /// Removes resources from a session.
    pub(super) fn remove(&mut self, id: Id, watched: &mut Watched, interests: &[Interest]) {
        let mut of_sets: HashSet<&str> = HashSet::new();
        for interest in interests {
            match interest {
                Interest::All => {
                    self.all.remove(id);
                    watched.all = false;
                }
                Interest::Name(name) if watched.names.remove(name) => self.remove_from(id, name),
                Interest::Name(name) => drop(of_sets.insert(name)),
            }
        }
        if of_sets.is_empty() {
            return;
        }
        // A session that leaves a set in part watches the other names one by one: it may remove more of them later.
        for (set, names) in std::mem::take(&mut watched.sets) {
            if !names.iter().any(|name| of_sets.contains(&**name)) {
                watched.sets.push((set, names));
                continue;
            }
            let stay = names.iter().filter(|name| !of_sets.contains(&***name));
            let stay = stay.map(|name| self.add_to(id, Arc::clone(name)));
            watched.names.extend(stay);
            self.leave(id, set);
        }
    }

    /// Removes everything that a session watches.
    pub(super) fn remove_all(&mut self, id: Id, watched: &Watched) {
        self.all.remove(id);
        self.observers.remove(id);
        watched
            .names
            .iter()
            .for_each(|name| self.remove_from(id, name));
        watched
            .sets
            .iter()
            .for_each(|(set, _)| self.leave(id, *set));
    }

    /// Returns the sessions that watch all resources.
    pub(super) fn of_all(&self) -> impl Iterator<Item = Id> {
        self.all.0.iter().chain(&self.observers.0).copied()
    }

    /// Returns the sessions that watch a name.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = Id> {
        let ids = self.names.get(name).into_iter().flat_map(|ids| &ids.0);
        ids.flat_map(|id| match self.sets.get(id) {
            Some(set) => &set.sessions.0[..],
            None => std::slice::from_ref(id),
        })
        .copied()
    }

    /// Adds a session or a set to a name. Returns the shared copy of the name.
    fn add_to(&mut self, id: Id, name: Arc<str>) -> Arc<str> {
        let entry = self.names.entry(name);
        let shared = Arc::clone(entry.key());
        entry.or_default().insert(id);
        shared
    }

    /// Removes a session or a set from a name, and the name with its last entry: names must not accumulate.
    fn remove_from(&mut self, id: Id, name: &str) {
        if let Some(ids) = self.names.get_mut(name) {
            ids.remove(id);
            if ids.0.is_empty() {
                self.names.remove(name);
            }
        }
    }

    /// Adds a session to the set of these names, which is created if necessary. Returns the id and names of the set.
    fn join(
        &mut self,
        id: Id,
        names: Vec<Arc<str>>,
        new_id: impl FnOnce() -> Id,
    ) -> (Id, SetNames) {
        if let Some(set_id) = self.by_names.get(&names[..])
            && let Some(set) = self.sets.get_mut(set_id)
        {
            set.sessions.insert(id);
            return (*set_id, Arc::clone(&set.names));
        }
        let set_id = new_id();
        let names = names.into_iter().map(|name| self.add_to(set_id, name));
        let names: SetNames = names.collect();
        self.by_names.insert(Arc::clone(&names), set_id);
        let set = NameSet {
            names: Arc::clone(&names),
            sessions: Ids(vec![id]),
        };
        self.sets.insert(set_id, set);
        (set_id, names)
    }

    /// Removes a session from a set, and the set with its last session.
    fn leave(&mut self, id: Id, set_id: Id) {
        let Some(set) = self.sets.get_mut(&set_id) else {
            return;
        };
        set.sessions.remove(id);
        if set.sessions.0.is_empty() {
            let names = Arc::clone(&set.names);
            self.sets.remove(&set_id);
            self.by_names.remove(&names);
            names.iter().for_each(|name| self.remove_from(set_id, name));
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

    /// Given three sessions on the same hundred names, one of which replaces one name: each name leads to the sessions
    /// that watch it, and no entries are left after all sessions are removed.
    #[test]
    fn p7_sessions_on_the_same_names_share_a_set() {
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
        left.sort_unstable();
        assert_eq!(left, [names(0..7), names(8..101)].concat());
        assert_eq!(watched[0].interests(), names(0..100));

        for (id, watched) in (1..).zip(&watched) {
            watchers.remove_all(id, watched);
        }
        assert!(watchers.is_empty() && watchers.sets.is_empty() && watchers.by_names.is_empty());
    }
}
