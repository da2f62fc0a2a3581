//! Who has which name: one file in each scope, and never two groups that are equally specific (S-74).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::{GroupUpdate, NodeMatcher, Specificity};
use oxds_core::snapshot::ChangeSet;
use oxds_core::snapshot::ResourceKey;

/// Who sees a resource: the nodes of a group; all nodes, where there is none.
pub(super) type Scope = Option<Arc<str>>;

/// Which file a served resource comes from.
#[derive(Debug, Default)]
pub(super) struct Owners {
    scopes: HashMap<Scope, HashMap<ResourceKey, Arc<Path>>>,
    groups: BTreeMap<Arc<str>, Group>,
    /// The groups that have a name, by what two must have in common to be equally specific.
    rivals: HashMap<ResourceKey, HashMap<Class, Vec<Arc<str>>>>,
}

#[derive(Debug)]
struct Group {
    matcher: NodeMatcher,
    class: Class,
}

/// Matchers of different classes never both match a node and are equally specific.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Class {
    specificity: Specificity,
    /// The exact id and cluster, where they are exact.
    exact: [Option<String>; 2],
}

impl Class {
    fn of(matcher: &NodeMatcher) -> Self {
        let exact = [&matcher.id, &matcher.cluster].map(|glob| {
            let exact = glob.as_ref().filter(|glob| glob.is_exact())?;
            Some(exact.as_str().to_owned())
        });
        Self {
            specificity: matcher.specificity(),
            exact,
        }
    }
}

impl Owners {
    pub(super) fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    pub(super) fn get(&self, scope: &Scope, key: &ResourceKey) -> Option<&Arc<Path>> {
        self.scopes.get(scope)?.get(key)
    }

    /// Whether who sees `scope` sees such a resource.
    pub(super) fn sees(&self, scope: &Scope, key: &ResourceKey) -> bool {
        self.get(scope, key).is_some() || self.get(&None, key).is_some()
    }

    pub(super) fn insert(&mut self, scope: &Scope, key: &ResourceKey, path: &Arc<Path>) {
        let names = self.scopes.entry(scope.clone()).or_default();
        let is_new = names.insert(key.clone(), Arc::clone(path)).is_none();
        if let Some(name) = scope.as_ref().filter(|_| is_new) {
            self.enter(name, key);
        }
    }

    /// Takes a name from a file; whether the file had it.
    pub(super) fn remove(&mut self, scope: &Scope, key: &ResourceKey, path: &Path) -> bool {
        let Some(names) = self.scopes.get_mut(scope) else {
            return false;
        };
        if names.get(key).is_none_or(|owner| **owner != *path) {
            return false;
        }
        names.remove(key);
        if names.is_empty() {
            self.scopes.remove(scope);
        }
        if let Some(name) = scope {
            self.strike(name, key);
        }
        true
    }

    /// The groups that hold something and are for nobody.
    pub(super) fn undefined(&self) -> impl Iterator<Item = &Arc<str>> {
        let named = self.scopes.keys().flatten();
        named.filter(|name| !self.groups.contains_key(*name))
    }

    /// Says whom a group is for, unless a node could then see two resources of one name that are equally specific.
    ///
    /// # Errors
    /// With such a name, and the other group.
    pub(super) fn define(
        &mut self,
        name: &Arc<str>,
        matcher: NodeMatcher,
    ) -> Result<(), (ResourceKey, Arc<str>)> {
        let class = Class::of(&matcher);
        let keys = self.scopes.get(&Some(Arc::clone(name)));
        let keys: Vec<ResourceKey> = keys
            .into_iter()
            .flat_map(|keys| keys.keys().cloned())
            .collect();
        for key in &keys {
            if let Some(other) = self.meets(key, &class, &matcher, name) {
                return Err((key.clone(), Arc::clone(other)));
            }
        }
        for key in &keys {
            self.strike(name, key);
        }
        self.groups
            .insert(Arc::clone(name), Group { matcher, class });
        for key in &keys {
            self.enter(name, key);
        }
        Ok(())
    }

    /// From now on the group is for nobody.
    pub(super) fn undefine(&mut self, name: &Arc<str>) {
        let keys = self.scopes.get(&Some(Arc::clone(name)));
        let keys: Vec<ResourceKey> = keys
            .into_iter()
            .flat_map(|keys| keys.keys().cloned())
            .collect();
        for key in &keys {
            self.strike(name, key);
        }
        self.groups.remove(name);
    }

    /// What a name in that scope must differ in from the same name in other groups; nothing outside of groups.
    pub(super) fn class(&self, scope: &Scope) -> Option<&Class> {
        Some(&self.groups.get(scope.as_ref()?)?.class)
    }

    /// Another group that has the name, is as specific, and may have a node in common.
    pub(super) fn rivals(&self, scope: &Scope, key: &ResourceKey) -> Vec<&Arc<str>> {
        let Some((name, group)) = scope
            .as_ref()
            .and_then(|name| self.groups.get_key_value(name))
        else {
            return Vec::new();
        };
        let same = self
            .rivals
            .get(key)
            .and_then(|classes| classes.get(&group.class));
        let others = same.into_iter().flatten().filter(|other| *other != name);
        others
            .filter(|other| self.may_overlap(name, other))
            .collect()
    }

    /// Whether a node may be in both groups.
    pub(super) fn may_overlap(&self, a: &Arc<str>, b: &Arc<str>) -> bool {
        match (self.groups.get(a), self.groups.get(b)) {
            (Some(a), Some(b)) => a.matcher.may_overlap(&b.matcher),
            _ => false,
        }
    }

    fn meets(
        &self,
        key: &ResourceKey,
        class: &Class,
        matcher: &NodeMatcher,
        name: &Arc<str>,
    ) -> Option<&Arc<str>> {
        let same = self.rivals.get(key)?.get(class)?;
        same.iter().find(|other| {
            let group = self.groups.get(*other);
            *other != name && group.is_some_and(|group| group.matcher.may_overlap(matcher))
        })
    }

    fn enter(&mut self, name: &Arc<str>, key: &ResourceKey) {
        if let Some(group) = self.groups.get(name) {
            let classes = self.rivals.entry(key.clone()).or_default();
            let names = classes.entry(group.class.clone()).or_default();
            names.push(Arc::clone(name));
        }
    }

    fn strike(&mut self, name: &Arc<str>, key: &ResourceKey) {
        let (Some(group), Some(classes)) = (self.groups.get(name), self.rivals.get_mut(key)) else {
            return;
        };
        if let Some(names) = classes.get_mut(&group.class) {
            names.retain(|other| other != name);
            if names.is_empty() {
                classes.remove(&group.class);
            }
        }
        if classes.is_empty() {
            self.rivals.remove(key);
        }
    }
}

/// What is served differently, in every scope.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) root: ChangeSet,
    pub(super) groups: BTreeMap<Arc<str>, GroupUpdate>,
}

impl Changes {
    pub(super) fn of(&mut self, scope: &Scope) -> &mut ChangeSet {
        match scope {
            None => &mut self.root,
            Some(name) => &mut self.group(name).changes,
        }
    }

    pub(super) fn group(&mut self, name: &Arc<str>) -> &mut GroupUpdate {
        let new = || GroupUpdate {
            name: Arc::clone(name),
            ..GroupUpdate::default()
        };
        self.groups.entry(Arc::clone(name)).or_insert_with(new)
    }

    /// What came or went, wherever.
    pub(super) fn keys(&self) -> impl Iterator<Item = ResourceKey> {
        let groups = self.groups.values().map(|group| &group.changes);
        groups.chain([&self.root]).flat_map(|changes| {
            let added = changes.upserts.iter();
            let added = added.map(|r| (r.resource_type().clone(), Arc::clone(r.name())));
            changes.removals.iter().cloned().chain(added)
        })
    }
}
