//! Status of a channel, its clusters and its endpoints, for people and tests.

use std::sync::Arc;

use oxds_core::lb::Connectivity;

use crate::attempt::Picked;
use crate::endpoint::{Ejected, EndpointEntry};
use crate::picker::ClusterHandle;
use crate::routing::{ChannelShared, Routing};
use crate::subchannel::{Subchannel, SubchannelState};

/// State of an [`XdsChannel`](crate::XdsChannel) at one moment, from
/// [`status`](crate::XdsChannel::status).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelStatus {
    /// The target that the channel was built with.
    pub target: String,
    /// The message that RPCs fail with, if the control plane has no usable configuration. `None` also
    /// while the channel waits for the first configuration.
    pub error: Option<String>,
    /// Number of configurations put into use so far, errors included.
    pub revision: u64,
    /// The clusters of the configuration in use.
    pub clusters: Vec<ClusterStatus>,
}

/// Status of one cluster of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// Name of the cluster.
    pub name: Arc<str>,
    /// Connectivity of the active priority.
    pub connectivity: Connectivity,
    /// Load-balancing policy of `leaf`, such as `wrr_locality(round_robin)`; `None` without a configuration.
    pub policy: Option<String>,
    /// Number of entries of the hash ring of the active priority, if the policy has one (gRFC A42).
    pub ring_size: Option<usize>,
    /// The active priority; `None` before the first is chosen. The priorities of an aggregate are those of its
    /// clusters, one after the other (gRFC A37).
    pub priority: Option<usize>,
    /// The cluster to which the active priority belongs: another one than `name` if that is an aggregate.
    pub leaf: Option<Arc<str>>,
    /// The message that RPCs to the cluster fail with, if they fail.
    pub error: Option<String>,
    /// Every usable endpoint of its assignment, in order of priority. If a route has sessions, draining endpoints
    /// follow.
    pub endpoints: Vec<EndpointStatus>,
}

/// Status of one endpoint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStatus {
    /// Address, cluster, locality and priority.
    pub endpoint: Arc<Picked>,
    /// Connectivity of its subchannel; idle if its priority was never tried.
    pub connectivity: Connectivity,
    /// Number of open connections.
    pub connections: usize,
    /// RPCs under way on these connections, including those of other channels of the pool.
    pub in_flight: u32,
    /// Weight among the endpoints of the active priority, if the policy makes weights of the load that backends report
    /// (gRFC A58). The largest is 65,535. `None` while too few weights are known.
    pub weight: Option<u16>,
    /// Ejection by outlier detection, if it is ejected.
    pub ejected: Option<Ejected>,
    /// Whether it drains: only RPCs of its sessions go to it (gRFC A55).
    pub is_draining: bool,
    /// The last connection error, while the endpoint is in transient failure.
    pub error: Option<String>,
}

impl ChannelStatus {
    pub(crate) fn of(shared: &ChannelShared) -> Self {
        let routing = shared.routing();
        let (error, clusters) = match &*routing {
            Routing::Waiting => (None, Vec::new()),
            Routing::Failed(status) => (Some(status.message().to_owned()), Vec::new()),
            Routing::Table(table) => (
                None,
                table
                    .clusters
                    .iter()
                    .map(|cluster| ClusterStatus::of(cluster))
                    .collect(),
            ),
        };
        Self {
            target: shared.target.to_string(),
            error,
            revision: shared.revision(),
            clusters,
        }
    }
}

impl ClusterStatus {
    fn of(cluster: &ClusterHandle) -> Self {
        let picker = cluster.picker();
        let weights = picker.weights();
        let entries = picker.endpoints.entries();
        let endpoint = |entry: &EndpointEntry| {
            let cell = entry.child.as_ref().map(|(cell, _)| Arc::as_ptr(cell));
            let weight = cell.and_then(|cell| weights.get(&cell).copied());
            EndpointStatus::of(entry, &picker.subchannels(entry), weight)
        };
        Self {
            name: Arc::clone(&cluster.name),
            connectivity: picker.connectivity(),
            policy: picker.policy.as_ref().map(ToString::to_string),
            ring_size: picker.ring_size,
            priority: picker.priority,
            leaf: picker.leaf.clone(),
            error: picker.failure().map(|status| status.message().to_owned()),
            endpoints: entries.iter().map(endpoint).collect(),
        }
    }
}

impl EndpointStatus {
    fn of(entry: &EndpointEntry, subchannels: &[Arc<Subchannel>], weight: Option<u16>) -> Self {
        let mut status = Self {
            endpoint: Arc::clone(&entry.picked),
            connectivity: Connectivity::Idle,
            connections: 0,
            in_flight: 0,
            weight,
            ejected: entry.ejected,
            is_draining: entry.is_draining,
            error: None,
        };
        let mut states = Vec::new();
        for subchannel in subchannels {
            let state = subchannel.state();
            states.push(state.connectivity());
            match state {
                SubchannelState::Idle | SubchannelState::Connecting => {}
                SubchannelState::Ready(connections) => {
                    status.connections += connections.len();
                    status.in_flight += connections.iter().map(|c| c.in_flight()).sum::<u32>();
                }
                SubchannelState::TransientFailure(error) => status.error = Some(error.to_string()),
            }
        }
        if !states.is_empty() {
            status.connectivity = Connectivity::of_children(states);
        }
        status
    }
}
