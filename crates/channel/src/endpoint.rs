//! An endpoint of an assignment: its identity, its connections, and its entry in the status.
//!
//! The children of a policy, which are endpoints that connect as one, share a [`ChildCell`]: the driver writes it, picks and the
//! status read it. So an endpoint that gets one more connection changes no picker.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use oxds_client::load::LocalityLoad;
use smallvec::SmallVec;

use crate::subchannel::{Connection, Connections, Subchannel};

/// The endpoint that served an RPC, with its cluster, locality and priority.
///
/// It is in the extensions of the response, as `Arc<Picked>`, if the channel was
/// [built](crate::Builder::report_picks) to report picks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Picked {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// The endpoint's locality, as `region/zone/sub_zone`.
    pub locality: Arc<str>,
    /// The locality's priority; 0 is the highest.
    pub priority: usize,
    /// Address and port of the endpoint.
    pub address: SocketAddr,
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cluster {})", self.address, self.cluster)
    }
}

/// Connections of a policy's child. It stays the same while the child has the same address, whatever its priority.
#[derive(Debug, Default)]
pub(crate) struct ChildCell {
    /// Set when the child connects for the first time.
    subchannel: OnceLock<Arc<Subchannel>>,
    /// `None` while the child is not ready.
    ready: ArcSwapOption<ReadyChild>,
}

/// The connections of a child that is ready.
#[derive(Debug)]
pub(crate) struct ReadyChild {
    pub(crate) subchannel: Arc<Subchannel>,
    pub(crate) connections: Connections,
}

/// A child of a policy, as picks see it.
#[derive(Debug)]
pub(crate) struct PickChild {
    pub(crate) cell: Arc<ChildCell>,
    pub(crate) endpoints: SmallVec<[PriorityEndpoint; 1]>,
}

/// An endpoint of a priority.
#[derive(Clone, Debug)]
pub(crate) struct PriorityEndpoint {
    pub(crate) picked: Arc<Picked>,
    /// The load of its locality, if the cluster reports load.
    pub(crate) load: Option<LocalityLoad>,
}

/// An endpoint of the assignment, with its connections if its priority was tried.
#[derive(Clone, Debug)]
pub(crate) struct EndpointEntry {
    pub(crate) picked: Arc<Picked>,
    pub(crate) cell: Option<Arc<ChildCell>>,
}

impl ChildCell {
    /// Returns the subchannel, or makes it with `create`.
    pub(crate) fn subchannel_or(
        &self,
        create: impl FnOnce() -> Arc<Subchannel>,
    ) -> &Arc<Subchannel> {
        self.subchannel.get_or_init(create)
    }

    /// Returns the subchannel, if the child has connected.
    pub(crate) fn subchannel(&self) -> Option<&Arc<Subchannel>> {
        self.subchannel.get()
    }

    /// Replaces the connections; `None` for a child that is not ready.
    pub(crate) fn set_ready(&self, ready: Option<ReadyChild>) {
        self.ready.store(ready.map(Arc::new));
    }

    /// Returns the connections, if the child is ready.
    pub(crate) fn ready(&self) -> arc_swap::Guard<Option<Arc<ReadyChild>>> {
        self.ready.load()
    }

    /// Returns the number of RPCs under way on the open connections.
    pub(crate) fn in_flight(&self) -> u32 {
        let ready = self.ready.load();
        let connections = ready.iter().flat_map(|ready| &ready.connections);
        connections.map(|connection| connection.in_flight()).sum()
    }
}

impl ReadyChild {
    /// Returns the connection for the next RPC; `None` if no connection takes requests.
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        let open = || {
            self.connections
                .iter()
                .filter(|connection| connection.is_open())
        };
        open().find(|connection| connection.has_room()).or_else(|| {
            // gRFC A105: all connections are at MAX_CONCURRENT_STREAMS, so ask for one more. The RPC queues on the connection
            // with the fewest streams.
            let emptiest = open().min_by_key(|connection| connection.in_flight())?;
            self.subchannel.grow();
            Some(emptiest)
        })
    }
}

impl EndpointEntry {
    /// Returns the subchannel, if the endpoint has connected.
    pub(crate) fn subchannel(&self) -> Option<&Arc<Subchannel>> {
        self.cell.as_ref()?.subchannel()
    }
}
