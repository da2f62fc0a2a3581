//! A listener, its routes, and the clusters that they name.

use std::sync::Arc;

use super::slots::{Lost, Slots};
use super::{ClusterConfig, ClusterEntry, RouteTable, XdsConfig};
use crate::ads::WatchError;
use crate::lb::choose_virtual_host;
use crate::resource::{Assignment, Cluster, Listener, RouteConfig, RouteSource};

#[derive(Debug, Clone)]
pub(super) struct Plan {
    listener: Arc<Listener>,
    route_config: Arc<RouteConfig>,
    routes: Arc<RouteTable>,
}

impl Plan {
    /// `None` if no virtual host serves the authority. The routes of a plan `before` with the same resources are
    /// used again, not compiled again.
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
        let host = choose_virtual_host(&route_config.virtual_hosts, authority)?;
        let routes = RouteTable::compile(listener, route_config, host)?;
        Some(Self {
            listener: Arc::clone(listener),
            route_config: Arc::clone(route_config),
            routes: Arc::new(routes),
        })
    }

    /// The clusters that the routes name.
    pub(super) fn clusters(&self) -> &[Arc<str>] {
        &self.routes.clusters
    }

    /// The resource that the routes came in, unless they stand in the listener.
    pub(super) fn rds_name(&self) -> Option<Arc<str>> {
        match &self.listener.api.as_ref()?.routes {
            RouteSource::Rds(name) => Some(Arc::clone(name)),
            RouteSource::Inline(_) => None,
        }
    }

    /// Whether every cluster and its endpoints have been answered for, be it with an error.
    pub(super) fn is_complete(
        &self,
        clusters: &Slots<Cluster>,
        assignments: &Slots<Assignment>,
        lost: Lost,
    ) -> bool {
        self.clusters()
            .iter()
            .all(|name| entry(name, clusters, assignments, lost).is_some())
    }

    /// What is known of each cluster. One that is not answered for (its assignment has another name now, or the server
    /// is lost) is as it was before. So is one that is deleted while the `next` plan, which does not name it, is awaited:
    /// servers that do not wait for the routes to be acknowledged take it away too soon.
    pub(super) fn entries(
        &self,
        clusters: &Slots<Cluster>,
        assignments: &Slots<Assignment>,
        before: Option<&XdsConfig>,
        next: Option<&Self>,
    ) -> Vec<ClusterEntry> {
        let is_left = |name| next.is_some_and(|next| !next.clusters().contains(name));
        // Most often the routes are the same, and so are the indexes.
        let before = |index: usize, name: &Arc<str>| {
            let entries = before.map_or(&[][..], |config| &config.clusters);
            let is_it = |entry: &&ClusterEntry| entry.name == *name;
            let at_index = entries.get(index).filter(is_it);
            at_index.or_else(|| entries.iter().find(is_it))
        };
        let entries = self.clusters().iter().enumerate();
        let entries = entries.filter_map(|(index, name)| {
            let before = before(index, name);
            let known = |lost| entry(name, clusters, assignments, lost);
            let fresh = |config: Result<ClusterConfig, _>| ClusterEntry {
                name: Arc::clone(name),
                config: config.map(|config| shared(config, before)),
            };
            known(Lost::IsSilence)
                .filter(|known| known.is_ok() || !is_left(name))
                .map(fresh)
                .or_else(|| before.cloned())
                .or_else(|| known(Lost::IsAnAnswer).map(fresh))
        });
        entries.collect()
    }

    /// Whether a configuration was made of this plan.
    pub(super) fn is_of(&self, config: &XdsConfig) -> bool {
        Arc::ptr_eq(&self.listener, &config.listener)
            && Arc::ptr_eq(&self.route_config, &config.route_config)
    }

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

/// A cluster and its endpoints; `None` while either has not been answered for.
fn entry(
    name: &str,
    clusters: &Slots<Cluster>,
    assignments: &Slots<Assignment>,
    lost: Lost,
) -> Option<Result<ClusterConfig, WatchError>> {
    let cluster = match clusters.get(name).answer(lost)? {
        Ok(cluster) => Arc::clone(cluster),
        Err(error) => return Some(Err(error.clone())),
    };
    let (assignment, note) = match assignments.get(&cluster.eds_service_name).answer(lost)? {
        Ok(assignment) => (Some(Arc::clone(assignment)), None),
        Err(error) => (None, Some(error.clone())),
    };
    Some(Ok(ClusterConfig {
        cluster,
        assignment,
        note,
    }))
}

/// The same `Arc` as before if nothing of it changed, so that a channel can tell by its address.
fn shared(config: ClusterConfig, before: Option<&ClusterEntry>) -> Arc<ClusterConfig> {
    let same = |before: &&Arc<ClusterConfig>| {
        let same_assignment = match (&before.assignment, &config.assignment) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        Arc::ptr_eq(&before.cluster, &config.cluster)
            && same_assignment
            && before.note == config.note
    };
    let before = before.and_then(|entry| entry.config.as_ref().ok());
    before
        .filter(same)
        .cloned()
        .unwrap_or_else(|| Arc::new(config))
}
