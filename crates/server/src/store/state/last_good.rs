//! The last good state of a store: everything that it has yielded.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::SystemTime;

use oxds_core::group::{Definition, GroupUpdate, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Resource, ResourceKey};
use oxds_types::ResourceType;

use super::changes::{Changes, ScopedKey, key};
use crate::store::Update;

/// The last good state of a store: resources with their groups, TTLs and origins, the matchers of groups, and the
/// store's position.
///
/// The content is what the store has, not what is served: a resource that was rolled back is here as the store has it.
#[derive(Debug, Clone, Default)]
pub struct LastGood {
    scopes: BTreeMap<Option<Arc<str>>, BTreeMap<ResourceKey, Arc<Resource>>>,
    matchers: BTreeMap<Arc<str>, NodeMatcher>,
    /// Secrets that the store has, and that are not kept.
    pub(super) omitted: BTreeSet<ScopedKey>,
    /// Whether an earlier process left out secrets, whose names are unknown.
    pub(super) lacks_secrets: bool,
    pub(super) position: Option<Arc<[u8]>>,
    pub(super) saved_at: Option<SystemTime>,
}

impl LastGood {
    /// Returns all resources with their groups, sorted by group, type and name. `None`: the resource is for all nodes.
    pub fn resources(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Arc<Resource>)> {
        self.scopes.iter().flat_map(|(group, resources)| {
            let group = group.as_ref();
            resources.values().map(move |resource| (group, resource))
        })
    }

    /// Returns the groups that have nodes, with the matchers of these, sorted by name.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &NodeMatcher)> {
        self.matchers.iter()
    }

    /// Returns the latest [`Update::position`] of the store.
    #[must_use]
    pub fn position(&self) -> Option<&[u8]> {
        self.position.as_deref()
    }

    /// Returns when the latest change was saved.
    #[must_use]
    pub fn saved_at(&self) -> Option<SystemTime> {
        self.saved_at
    }

    /// Returns whether the store had secrets that are not in the state, because secrets are not kept.
    #[must_use]
    pub fn lacks_secrets(&self) -> bool {
        self.lacks_secrets || !self.omitted.is_empty()
    }

    /// Returns the number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scopes.values().map(BTreeMap::len).sum()
    }

    /// Returns whether it has no resources and no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty() && self.matchers.is_empty()
    }

    /// Returns the update that leads from nothing to this state.
    pub(crate) fn as_update(&self) -> Update {
        let mut update = Update::default();
        for (scope, resources) in &self.scopes {
            let changes: ChangeSet = resources.values().map(Arc::clone).collect();
            match scope {
                None => update.changes = changes,
                Some(name) => {
                    let group = GroupUpdate::of_resources(Arc::clone(name), changes);
                    update.groups.push(group);
                }
            }
        }
        for (name, matcher) in &self.matchers {
            let set = Definition::Set(Box::new(matcher.clone()));
            group_of(&mut update.groups, name).definition = set;
        }
        update
    }

    /// Completes the first update of a store, which has its whole state, by the removals that lead to it from this
    /// state.
    pub(crate) fn complete(&self, first: &mut Update) {
        let removals = |scope: &Option<Arc<str>>, upserts: &[Arc<Resource>]| {
            let now: BTreeSet<ResourceKey> = upserts.iter().map(|new| key(new)).collect();
            let before = self.scopes.get(scope).into_iter().flat_map(BTreeMap::keys);
            let gone = before.filter(|key| !now.contains(*key)).cloned();
            gone.collect::<Vec<_>>()
        };
        let of_all = removals(&None, &first.changes.upserts);
        first.changes.removals.extend(of_all);
        let grouped = self.scopes.keys().flatten();
        let groups: BTreeSet<&Arc<str>> = grouped.chain(self.matchers.keys()).collect();
        for name in groups {
            let group = group_of(&mut first.groups, name);
            let gone = removals(&Some(Arc::clone(name)), &group.changes.upserts);
            group.changes.removals.extend(gone);
            if group.definition == Definition::Unchanged && self.matchers.contains_key(name) {
                group.definition = Definition::Unset;
            }
        }
    }

    /// Puts this state before an update that continues it: the result leads to the same state from nothing.
    pub(crate) fn precede(&self, update: &mut Update) {
        let mut changes = Changes::default();
        changes.add_update(update);
        let mut now = self.clone();
        now.load(changes);
        let mut whole = now.as_update();
        whole.changes.removals = mem::take(&mut update.changes.removals);
        for group in &mut update.groups {
            let now = group_of(&mut whole.groups, &group.name);
            now.changes.removals = mem::take(&mut group.changes.removals);
            if group.definition == Definition::Unset {
                now.definition = Definition::Unset;
            }
        }
        (update.changes, update.groups) = (whole.changes, whole.groups);
    }

    /// Applies changes that were saved.
    pub(super) fn load(&mut self, changes: Changes) {
        for (place, new) in changes.resources {
            self.put(&place, new.as_ref());
        }
        for (name, matcher) in changes.matchers {
            match matcher {
                Some(matcher) => drop(self.matchers.insert(name, matcher)),
                None => drop(self.matchers.remove(&name)),
            }
        }
        self.position = changes.position.or(self.position.take());
    }

    /// Applies changes. Returns those that make a difference to what is saved.
    pub(super) fn apply(&mut self, changes: Changes, keep_secrets: bool) -> Changes {
        let mut effective = Changes::default();
        let lacked = self.lacks_secrets();
        for (place, new) in changes.resources {
            let is_secret = place.1.0 == ResourceType::SECRET;
            let new = match new {
                Some(_) if is_secret && !keep_secrets => {
                    self.omitted.insert(place.clone());
                    None
                }
                new => {
                    self.omitted.remove(&place);
                    new
                }
            };
            if self.put(&place, new.as_ref()) {
                effective.resources.insert(place, new);
            }
        }
        for (name, matcher) in changes.matchers {
            let before = match matcher.clone() {
                Some(matcher) => self.matchers.insert(Arc::clone(&name), matcher),
                None => self.matchers.remove(&name),
            };
            if before != matcher {
                effective.matchers.insert(name, matcher);
            }
        }
        if changes.position.is_some() && changes.position != self.position {
            self.position.clone_from(&changes.position);
            effective.position = changes.position;
        }
        // From the first update on, which has the whole state, it is known which ones there are.
        self.lacks_secrets = false;
        effective.secrets = lacked != self.lacks_secrets();
        effective
    }

    /// Removes all secrets, and remembers that there were any. Returns whether there were.
    pub(super) fn omit_secrets(&mut self) -> bool {
        let places = self.scopes.iter().flat_map(|(group, resources)| {
            let secrets = resources.keys().filter(|key| key.0 == ResourceType::SECRET);
            secrets.map(|key| (group.clone(), key.clone()))
        });
        let places: Vec<ScopedKey> = places.collect();
        for place in &places {
            self.put(place, None);
        }
        let any = !places.is_empty();
        self.omitted.extend(places);
        any
    }

    /// Sets a resource, or removes it. Returns whether that makes a difference.
    fn put(&mut self, (group, key): &ScopedKey, new: Option<&Arc<Resource>>) -> bool {
        let Some(new) = new else {
            let Some(of_scope) = self.scopes.get_mut(group) else {
                return false;
            };
            let removed = of_scope.remove(key).is_some();
            if of_scope.is_empty() {
                self.scopes.remove(group);
            }
            return removed;
        };
        let of_scope = self.scopes.entry(group.clone()).or_default();
        let before = of_scope.insert(key.clone(), Arc::clone(new));
        // The position alone moves with every line that is added above it: so it alone is not written.
        let document = |resource: &Resource| resource.origin().map(|o| Arc::clone(&o.document));
        before.is_none_or(|before| before != *new || document(&before) != document(new))
    }
}

fn group_of<'a>(groups: &'a mut Vec<GroupUpdate>, name: &Arc<str>) -> &'a mut GroupUpdate {
    let at = groups.iter().position(|group| group.name == *name);
    let at = at.unwrap_or_else(|| {
        groups.push(GroupUpdate {
            name: Arc::clone(name),
            ..GroupUpdate::default()
        });
        groups.len() - 1
    });
    &mut groups[at]
}
