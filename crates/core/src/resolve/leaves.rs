//! Leaves of a cluster: the clusters with endpoints to which it leads (gRFC A37).

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use super::config::{ClusterConfig, LeafCluster};
use super::dns::DnsHosts;
use super::slots::{Slots, Unreachable};
use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{Assignment, Cluster, Discovery};

/// Number of clusters on the longest path that is allowed, from the cluster of a route to a leaf. gRFC A37 leaves the
/// limit open; it is that of C-core.
const MAX_DEPTH: usize = 16;

/// Resources of which clusters are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources<'a> {
    pub(super) clusters: &'a Slots<Cluster>,
    pub(super) assignments: &'a Slots<Assignment>,
    pub(super) hosts: &'a DnsHosts,
}

/// Returns the names of these clusters and of those to which they lead, as far as the clusters are known. Clusters that
/// are nested too deep are left out.
pub(super) fn reachable<'a>(
    names: impl IntoIterator<Item = &'a Arc<str>>,
    clusters: &Slots<Cluster>,
) -> BTreeSet<Arc<str>> {
    let mut found: BTreeSet<_> = names.into_iter().cloned().collect();
    let mut level: Vec<_> = found.iter().cloned().collect();
    for _ in 1..MAX_DEPTH {
        let mut next = Vec::new();
        for name in level {
            let cluster = clusters.found(&name);
            let Some(Discovery::Aggregate(children)) = cluster.map(|cluster| &cluster.discovery)
            else {
                continue;
            };
            let children = children.iter().cloned();
            next.extend(children.filter(|child| found.insert(Arc::clone(child))));
        }
        level = next;
    }
    found
}

impl Resources<'_> {
    /// Returns a cluster with its leaves; `None` while one of them has no answer.
    pub(super) fn cluster(
        self,
        name: &Arc<str>,
        unreachable: Unreachable,
    ) -> Option<Result<ClusterConfig, WatchError>> {
        // gRFC A74: an error of a cluster fails the routes to it, and no others (C-220).
        let cluster = match self.clusters.get(name).answer(unreachable)? {
            Ok(cluster) => cluster,
            Err(error) => return Some(Err(error.clone())),
        };
        let mut found = Leaves::default();
        self.collect(slice::from_ref(name), 0, unreachable, &mut found)?;
        Some(found.checked(name).map(|leaves| ClusterConfig {
            cluster: Arc::clone(cluster),
            leaves,
        }))
    }

    /// Adds the leaves of these clusters, in depth-first order. Returns `None` while one of them has no answer.
    fn collect(
        self,
        names: &[Arc<str>],
        depth: usize,
        unreachable: Unreachable,
        found: &mut Leaves,
    ) -> Option<()> {
        if depth >= MAX_DEPTH {
            found.is_too_deep = true;
            return Some(());
        }
        for name in names {
            // gRFC A37: a cluster that is reached twice counts where it is reached first, so cycles end (C-221).
            if !found.visited.insert(Arc::clone(name)) {
                continue;
            }
            let cluster = match self.clusters.get(name).answer(unreachable)? {
                Ok(cluster) => cluster,
                // gRFC A75: a missing cluster counts as one that has failed (C-221).
                Err(error) => {
                    found.last_error = Some((Arc::clone(name), error.clone()));
                    continue;
                }
            };
            let assignment = match &cluster.discovery {
                Discovery::Aggregate(names) => {
                    self.collect(names, depth + 1, unreachable, found)?;
                    continue;
                }
                Discovery::LogicalDns(host) => self.hosts.get(host),
                Discovery::Eds => self.assignments.get(&cluster.eds_service_name),
            };
            let leaf = leaf(cluster, assignment.answer(unreachable)?);
            found.leaves.push(Arc::new(leaf));
        }
        Some(())
    }
}

/// Returns a cluster with the answer for its endpoints.
fn leaf(cluster: &Arc<Cluster>, assignment: Result<&Arc<Assignment>, &WatchError>) -> LeafCluster {
    // gRFC A74: an error of the endpoints does not hide the cluster; RPCs fail with it as their cause (C-220).
    let (assignment, note) = match assignment {
        Ok(assignment) => (Some(Arc::clone(assignment)), None),
        Err(error) => (None, Some(error.clone())),
    };
    LeafCluster {
        cluster: Arc::clone(cluster),
        assignment,
        note,
    }
}

/// Leaves that were found so far.
#[derive(Debug, Default)]
struct Leaves {
    leaves: Vec<Arc<LeafCluster>>,
    visited: BTreeSet<Arc<str>>,
    is_too_deep: bool,
    /// The last cluster that is missing or invalid, with its error.
    last_error: Option<(Arc<str>, WatchError)>,
}

impl Leaves {
    /// Returns the leaves, or the error of the cluster that has none that can be used.
    fn checked(self, name: &str) -> Result<Vec<Arc<LeafCluster>>, WatchError> {
        let problem = match (self.leaves.is_empty(), self.last_error) {
            _ if self.is_too_deep => format!("leads to clusters more than {MAX_DEPTH} deep"),
            (false, _) => return Ok(self.leaves),
            (true, None) => "leads to no cluster with endpoints".to_owned(),
            (true, Some((last, error))) => {
                format!("has no usable cluster, last error of {last:?}: {error}")
            }
        };
        let text = format!("aggregate cluster {name:?} {problem}");
        Err(WatchError::new(WatchErrorReason::Unusable, text))
    }
}
