//! What a channel knows, for people and tests to read.

use std::sync::Arc;

use oxds_core::lb::Connectivity;

use crate::picker::{Cluster, Picked, PickerState};
use crate::routing::{Routing, Shared};
use crate::subchannel::{State, Subchannel};

/// A moment of an [`XdsChannel`](crate::XdsChannel), from [`status`](crate::XdsChannel::status).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelStatus {
    /// The target it was built with.
    pub target: String,
    /// Why there is no configuration, if there is none: what RPCs fail with.
    pub error: Option<String>,
    /// How many configurations were put into use so far.
    pub revision: u64,
    /// The clusters of the configuration in use.
    pub clusters: Vec<ClusterStatus>,
}

/// One cluster of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands as a whole.
    pub connectivity: Connectivity,
    /// The priority in use; `None` before the first.
    pub priority: Option<usize>,
    /// What RPCs to it fail with, if they fail.
    pub error: Option<String>,
    /// Every usable endpoint of its assignment, in order of priority.
    pub endpoints: Vec<EndpointStatus>,
}

/// One endpoint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStatus {
    /// Which endpoint.
    pub endpoint: Arc<Picked>,
    /// Where its connection stands.
    pub connectivity: Connectivity,
    /// Open connections.
    pub connections: usize,
    /// RPCs under way on them, those of other channels of the pool included.
    pub in_flight: u32,
    /// Why it is in transient failure.
    pub error: Option<String>,
}

/// An endpoint of the assignment, connected to or not.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) picked: Arc<Picked>,
    pub(crate) subchannel: Option<Arc<Subchannel>>,
}

impl ChannelStatus {
    pub(crate) fn of(shared: &Shared) -> Self {
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
    fn of(cluster: &Cluster) -> Self {
        let picker = cluster.picker();
        let (connectivity, error) = match &picker.state {
            PickerState::Connecting | PickerState::Gone => (Connectivity::Connecting, None),
            PickerState::Ready(_) => (Connectivity::Ready, None),
            PickerState::Failed(status) => (
                Connectivity::TransientFailure,
                Some(status.message().to_owned()),
            ),
        };
        Self {
            name: Arc::clone(&cluster.name),
            connectivity,
            priority: picker.priority,
            error,
            endpoints: picker.known.iter().map(EndpointStatus::of).collect(),
        }
    }
}

impl EndpointStatus {
    fn of(known: &Known) -> Self {
        let state = known
            .subchannel
            .as_ref()
            .map_or(State::Idle, |subchannel| subchannel.state());
        let mut status = Self {
            endpoint: Arc::clone(&known.picked),
            connectivity: state.connectivity(),
            connections: 0,
            in_flight: 0,
            error: None,
        };
        match state {
            State::Idle | State::Connecting => {}
            State::Ready(connections) => {
                status.connections = connections.len();
                status.in_flight = connections.iter().map(|c| c.in_flight()).sum();
            }
            State::TransientFailure(error) => status.error = Some(error.to_string()),
        }
        status
    }
}
