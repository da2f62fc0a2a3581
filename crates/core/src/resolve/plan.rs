//! Plan: a listener, its routes, and the clusters that the routes name.

use std::sync::Arc;

use super::config::{ClusterConfig, ClusterEntry, LeafCluster, RouteTable, XdsConfig};
use super::leaves::Resources;
use super::slots::Unreachable;
use crate::resource::{Listener, RouteConfig, RouteSource};

/// Listener and route configuration of one future or current configuration.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    listener: Arc<Listener>,
    route_config: Arc<RouteConfig>,
    routes: Arc<RouteTable>,
}

impl Plan {
    /// Makes a plan; `None` if no virtual host matches the authority. If a plan in `before` has the same resources, its
    /// compiled routes are used again.
    pub(super) fn new<'a>(
        listener: &Arc<Listener>,
        route_config: &Arc<RouteConfig>,
        authority: &str,
        mut before: impl Iterator<Item = &'a Plan>,
    ) -> Option<Self> {
        let same = |plan: &&Plan| {
            Arc::ptr_eq(&plan.listener, listener) && Arc::ptr_eq(&plan.route_config, route_config)
        };
        if let Some(plan) = before.find(same) {
            return Some(plan.clone());
        }
        let host = route_config.choose_virtual_host(authority)?;
        let routes = RouteTable::compile(listener, route_config, host)?;
        Some(Self {
            listener: Arc::clone(listener),
            route_config: Arc::clone(route_config),
            routes: Arc::new(routes),
        })
    }

    /// Returns the clusters that the routes name.
    pub(super) fn clusters(&self) -> &[Arc<str>] {
        &self.routes.clusters
    }

    /// Returns the name of the RDS resource; `None` if the routes are inside the listener.
    pub(super) fn rds_name(&self) -> Option<Arc<str>> {
        match &self.listener.api.as_ref()?.routes {
            RouteSource::Rds(name) => Some(Arc::clone(name)),
            RouteSource::Inline(_) => None,
        }
    }

    /// Returns whether every cluster and its endpoints have an answer; an error counts as one.
    pub(super) fn is_complete(&self, resources: Resources<'_>, unreachable: Unreachable) -> bool {
        let mut names = self.clusters().iter();
        names.all(|name| resources.cluster(name, unreachable).is_some())
    }

    /// Returns the state of each cluster.
    ///
    /// A cluster without an answer stays as it was before: its assignment has a new name, or its server is unreachable.
    /// So does a deleted cluster that the `next` plan does not name: a server that does not wait for the ACK of the
    /// routes deletes it too early.
    pub(super) fn entries(
        &self,
        resources: Resources<'_>,
        before: Option<&XdsConfig>,
        next: Option<&Self>,
    ) -> Vec<ClusterEntry> {
        let is_replaced = |name| next.is_some_and(|next| !next.clusters().contains(name));
        // In most updates the routes are the same, and so are the indexes.
        let before = |index: usize, name: &Arc<str>| {
            let entries = before.map_or(&[][..], |config| &config.clusters);
            let is_it = |entry: &&ClusterEntry| entry.name == *name;
            let at_index = entries.get(index).filter(is_it);
            at_index.or_else(|| entries.iter().find(is_it))
        };
        let entries = self.clusters().iter().enumerate();
        let entries = entries.filter_map(|(index, name)| {
            let before = before(index, name);
            let known = |unreachable| resources.cluster(name, unreachable);
            let fresh = |config: Result<ClusterConfig, _>| ClusterEntry {
                name: Arc::clone(name),
                config: config.map(|config| shared(config, before)),
            };
            // gRFC A74: an update of one resource never removes the working state of another.
            known(Unreachable::IsPending)
                .filter(|known| known.is_ok() || !is_replaced(name))
                .map(fresh)
                .or_else(|| before.cloned())
                .or_else(|| known(Unreachable::IsError).map(fresh))
        });
        entries.collect()
    }

    /// Returns whether a configuration was made of this plan.
    pub(super) fn is_of(&self, config: &XdsConfig) -> bool {
        Arc::ptr_eq(&self.listener, &config.listener)
            && Arc::ptr_eq(&self.route_config, &config.route_config)
    }

    /// Makes a configuration of this plan.
    pub(super) fn config(&self, revision: u64, clusters: Vec<ClusterEntry>) -> XdsConfig {
        XdsConfig {
            revision,
            listener: Arc::clone(&self.listener),
            route_config: Arc::clone(&self.route_config),
            routes: Arc::clone(&self.routes),
            clusters,
        }
    }
}

/// Returns the same `Arc` as before if nothing changed, so that the channel can compare addresses. So do its leaves.
fn shared(mut config: ClusterConfig, before: Option<&ClusterEntry>) -> Arc<ClusterConfig> {
    let Some(before) = before.and_then(|entry| entry.config.as_ref().ok()) else {
        return Arc::new(config);
    };
    for leaf in &mut config.leaves {
        if let Some(same) = before.leaves.iter().find(|before| is_same(before, leaf)) {
            *leaf = Arc::clone(same);
        }
    }
    let same_leaves = before.leaves.len() == config.leaves.len()
        && before
            .leaves
            .iter()
            .zip(&config.leaves)
            .all(|(a, b)| Arc::ptr_eq(a, b));
    if Arc::ptr_eq(&before.cluster, &config.cluster) && same_leaves {
        Arc::clone(before)
    } else {
        Arc::new(config)
    }
}

fn is_same(before: &LeafCluster, leaf: &LeafCluster) -> bool {
    let same_assignment = match (&before.assignment, &leaf.assignment) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    Arc::ptr_eq(&before.cluster, &leaf.cluster) && same_assignment && before.note == leaf.note
}
