//! Ownership of names: each name belongs to one document per scope, and never to two groups that are equally specific
//! (S-74).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::{NodeMatcher, Specificity};
use oxds_core::snapshot::ResourceKey;

use super::changes::Scope;
use super::document::DocumentId;

/// The document that each served resource comes from.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    scopes: HashMap<Scope, HashMap<ResourceKey, DocumentId>>,
    groups: BTreeMap<Arc<str>, DefinedGroup>,
    /// The groups that have a name, by class: two groups of different classes never conflict.
    holders: HashMap<ResourceKey, HashMap<MatcherClass, Vec<Arc<str>>>>,
}

#[derive(Debug)]
struct DefinedGroup {
    matcher: NodeMatcher,
    class: MatcherClass,
}

/// The class of a matcher. Two matchers of different classes are never equally specific for one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MatcherClass {
    specificity: Specificity,
    /// The node id and the cluster, if they are exact.
    exact: [Option<String>; 2],
}

impl MatcherClass {
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

impl Ownership {
    pub(super) fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns the document that owns a name in a scope.
    pub(super) fn owner(&self, scope: &Scope, key: &ResourceKey) -> Option<&DocumentId> {
        self.scopes.get(scope)?.get(key)
    }

    /// Whether the nodes of `scope` see such a resource.
    pub(super) fn sees(&self, scope: &Scope, key: &ResourceKey) -> bool {
        self.owner(scope, key).is_some() || self.owner(&None, key).is_some()
    }

    /// Gives a name to a document.
    pub(super) fn insert(&mut self, scope: &Scope, key: &ResourceKey, id: &DocumentId) {
        let names = self.scopes.entry(scope.clone()).or_default();
        let is_new = names.insert(key.clone(), Arc::clone(id)).is_none();
        if let Some(group) = scope.as_ref().filter(|_| is_new) {
            self.add_holder(group, key);
        }
    }

    /// Takes a name from a document. Returns whether the document owned it.
    pub(super) fn remove(&mut self, scope: &Scope, key: &ResourceKey, id: &Path) -> bool {
        let Some(names) = self.scopes.get_mut(scope) else {
            return false;
        };
        if names.get(key).is_none_or(|owner| **owner != *id) {
            return false;
        }
        names.remove(key);
        if names.is_empty() {
            self.scopes.remove(scope);
        }
        if let Some(group) = scope {
            self.remove_holder(group, key);
        }
        true
    }

    /// Returns the groups that have resources but no definition.
    pub(super) fn undefined_groups(&self) -> impl Iterator<Item = &Arc<str>> {
        let used = self.scopes.keys().flatten();
        used.filter(|name| !self.groups.contains_key(*name))
    }

    /// Defines the nodes of a group, unless a node could then see two resources of one name in groups that are equally
    /// specific.
    ///
    /// # Errors
    /// Returns such a name, and the other group.
    pub(super) fn define(
        &mut self,
        group: &Arc<str>,
        matcher: NodeMatcher,
    ) -> Result<(), (ResourceKey, Arc<str>)> {
        let class = MatcherClass::of(&matcher);
        let keys = self.keys_of(group);
        for key in &keys {
            if let Some(other) = self.conflicting_holder(key, &class, &matcher, group) {
                return Err((key.clone(), Arc::clone(other)));
            }
        }
        for key in &keys {
            self.remove_holder(group, key);
        }
        self.groups
            .insert(Arc::clone(group), DefinedGroup { matcher, class });
        for key in &keys {
            self.add_holder(group, key);
        }
        Ok(())
    }

    /// Removes the definition of a group: no node is in it any more.
    pub(super) fn undefine(&mut self, group: &Arc<str>) {
        for key in &self.keys_of(group) {
            self.remove_holder(group, key);
        }
        self.groups.remove(group);
    }

    /// Returns the groups that are defined, with their matchers.
    pub(super) fn definitions(&self) -> impl Iterator<Item = (&Arc<str>, &NodeMatcher)> {
        let groups = self.groups.iter();
        groups.map(|(name, group)| (name, &group.matcher))
    }

    /// Returns the class of a scope's matcher. `None` outside of groups and for a group without a definition.
    pub(super) fn class(&self, scope: &Scope) -> Option<&MatcherClass> {
        Some(&self.groups.get(scope.as_ref()?)?.class)
    }

    /// Returns the other groups that have the name, are equally specific, and may have a node in common with `scope`.
    pub(super) fn rivals(&self, scope: &Scope, key: &ResourceKey) -> Vec<&Arc<str>> {
        let Some((name, group)) = scope
            .as_ref()
            .and_then(|name| self.groups.get_key_value(name))
        else {
            return Vec::new();
        };
        let same = self
            .holders
            .get(key)
            .and_then(|classes| classes.get(&group.class));
        let others = same.into_iter().flatten().filter(|other| *other != name);
        others
            .filter(|other| self.may_share_nodes(name, other))
            .collect()
    }

    /// Whether a node may be in both groups.
    pub(super) fn may_share_nodes(&self, a: &Arc<str>, b: &Arc<str>) -> bool {
        match (self.groups.get(a), self.groups.get(b)) {
            (Some(a), Some(b)) => a.matcher.may_overlap(&b.matcher),
            _ => false,
        }
    }

    fn keys_of(&self, group: &Arc<str>) -> Vec<ResourceKey> {
        let names = self.scopes.get(&Some(Arc::clone(group)));
        let keys = names.into_iter().flat_map(|names| names.keys().cloned());
        keys.collect()
    }

    fn conflicting_holder(
        &self,
        key: &ResourceKey,
        class: &MatcherClass,
        matcher: &NodeMatcher,
        group: &Arc<str>,
    ) -> Option<&Arc<str>> {
        let same = self.holders.get(key)?.get(class)?;
        same.iter().find(|other| {
            let defined = self.groups.get(*other);
            *other != group && defined.is_some_and(|other| other.matcher.may_overlap(matcher))
        })
    }

    fn add_holder(&mut self, name: &Arc<str>, key: &ResourceKey) {
        if let Some(group) = self.groups.get(name) {
            let classes = self.holders.entry(key.clone()).or_default();
            let names = classes.entry(group.class.clone()).or_default();
            names.push(Arc::clone(name));
        }
    }

    fn remove_holder(&mut self, name: &Arc<str>, key: &ResourceKey) {
        let (Some(group), Some(classes)) = (self.groups.get(name), self.holders.get_mut(key))
        else {
            return;
        };
        if let Some(names) = classes.get_mut(&group.class) {
            names.retain(|other| other != name);
            if names.is_empty() {
                classes.remove(&group.class);
            }
        }
        if classes.is_empty() {
            self.holders.remove(key);
        }
    }
}
