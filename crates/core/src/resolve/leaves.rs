//! Leaves of a cluster: the clusters with endpoints to which it leads.

use std::sync::Arc;

use super::config::{ClusterConfig, LeafCluster};
use super::dns::DnsHosts;
use super::slots::{Slots, Unreachable};
use crate::ads::WatchError;
use crate::resource::{Assignment, Cluster, Discovery};

/// Resources of which clusters are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources<'a> {
    pub(super) clusters: &'a Slots<Cluster>,
    pub(super) assignments: &'a Slots<Assignment>,
    pub(super) hosts: &'a DnsHosts,
}

impl Resources<'_> {
    /// Returns a cluster with its leaves; `None` while one of them has no answer.
    pub(super) fn cluster(
        self,
        name: &str,
        unreachable: Unreachable,
    ) -> Option<Result<ClusterConfig, WatchError>> {
        // gRFC A74: an error of a cluster fails the routes to it, and no others (C-220).
        let cluster = match self.clusters.get(name).answer(unreachable)? {
            Ok(cluster) => Arc::clone(cluster),
            Err(error) => return Some(Err(error.clone())),
        };
        let leaves = vec![Arc::new(self.leaf(&cluster, unreachable)?)];
        Some(Ok(ClusterConfig { cluster, leaves }))
    }

    /// Returns a cluster with the answer for its endpoints.
    fn leaf(self, cluster: &Arc<Cluster>, unreachable: Unreachable) -> Option<LeafCluster> {
        let assignment = match &cluster.discovery {
            Discovery::LogicalDns(host) => self.hosts.get(host),
            Discovery::Eds => self.assignments.get(&cluster.eds_service_name),
        };
        // gRFC A74: an error of the endpoints does not hide the cluster; RPCs fail with it as their cause (C-220).
        let (assignment, note) = match assignment.answer(unreachable)? {
            Ok(assignment) => (Some(Arc::clone(assignment)), None),
            Err(error) => (None, Some(error.clone())),
        };
        Some(LeafCluster {
            cluster: Arc::clone(cluster),
            assignment,
            note,
        })
    }
}
