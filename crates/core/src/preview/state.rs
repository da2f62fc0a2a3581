//! Everything that a source serves, by group.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::group::{Definition, GroupUpdate, NodeMatcher};
use crate::snapshot::{Resource, ResourceKey};

/// Resources by type and name.
pub type Resources = BTreeMap<ResourceKey, Arc<Resource>>;

/// Everything that a source serves.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Resources that all nodes see.
    pub of_all_nodes: Resources,
    /// Groups of nodes.
    pub groups: BTreeMap<Arc<str>, GroupState>,
}

/// A group of nodes.
#[derive(Debug, Clone, Default)]
pub struct GroupState {
    /// The nodes; `None`: no nodes.
    pub matcher: Option<NodeMatcher>,
    /// Resources that only these nodes see. They replace those for all nodes.
    pub resources: Resources,
}

impl State {
    /// Returns the state that a source describes by its first update.
    #[must_use]
    pub fn new(of_all_nodes: &[Arc<Resource>], groups: &[GroupUpdate]) -> Self {
        let mut state = Self::default();
        for resource in of_all_nodes {
            state.put(None, Arc::clone(resource));
        }
        for group in groups {
            let of_group = state.groups.entry(Arc::clone(&group.name)).or_default();
            if let Definition::Set(matcher) = &group.definition {
                of_group.matcher = Some(NodeMatcher::clone(matcher));
            }
            for resource in &group.changes.upserts {
                state.put(Some(&group.name), Arc::clone(resource));
            }
        }
        state
    }

    /// Adds a resource, for all nodes or for those of a group.
    pub fn put(&mut self, group: Option<&Arc<str>>, resource: Arc<Resource>) {
        self.resources_mut(group).insert(resource.key(), resource);
    }

    /// Returns the resources for all nodes, or only those of a group.
    #[must_use]
    pub fn resources(&self, group: Option<&str>) -> Option<&Resources> {
        match group {
            None => Some(&self.of_all_nodes),
            Some(group) => self.groups.get(group).map(|group| &group.resources),
        }
    }

    /// Returns all that the nodes of a group see, if they are in no other group; without a group, nodes that are in
    /// none.
    #[must_use]
    pub fn view(&self, group: Option<&str>) -> Resources {
        let mut view = self.of_all_nodes.clone();
        let own = group.and_then(|group| self.groups.get(group));
        let own = own.into_iter().flat_map(|group| &group.resources);
        view.extend(own.map(|(key, resource)| (key.clone(), Arc::clone(resource))));
        view
    }

    /// Returns the number of resources, those of groups included.
    #[must_use]
    pub fn len(&self) -> usize {
        let groups = self.groups.values();
        self.of_all_nodes.len() + groups.map(|group| group.resources.len()).sum::<usize>()
    }

    /// Returns whether the state has no resource.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn resources_mut(&mut self, group: Option<&Arc<str>>) -> &mut Resources {
        match group {
            None => &mut self.of_all_nodes,
            Some(group) => &mut self.groups.entry(Arc::clone(group)).or_default().resources,
        }
    }
}
