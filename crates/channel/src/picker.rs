//! The endpoints an RPC may go to, as the request path reads them.
//!
//! A [`Cluster`] lives as long as its name is in the configuration; its [`Picker`] is replaced whenever
//! an endpoint connects or fails, a priority takes over, or the assignment changes. A picker never
//! changes but for its counters, so a pick is loads and one `fetch_add`: no lock, no allocation.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use hyper::client::conn::http2::SendRequest;
use tonic::Status;

use crate::body::RequestBody;
use crate::random::random;
use crate::subchannel::{Connection, Connections, InFlight, Subchannel};

/// Where an RPC went. In the extensions of the response as `Arc<Picked>` if the channel was
/// [built](crate::Builder::report_picks) to report picks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Picked {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// The endpoint's locality, as `region/zone/sub_zone`.
    pub locality: Arc<str>,
    /// The locality's priority; 0 is the highest.
    pub priority: u32,
    /// The endpoint's address.
    pub address: SocketAddr,
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cluster {})", self.address, self.cluster)
    }
}

/// A cluster of the configuration.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    picker: ArcSwap<Picker>,
}

/// Who takes the next RPC.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) drops: Drops,
    pub(crate) state: PickerState,
}

#[derive(Debug)]
pub(crate) enum PickerState {
    /// No endpoint is ready yet.
    Connecting,
    /// None will be without a change: RPCs fail with this.
    Failed(Status),
    Ready(Localities),
    /// The configuration has dropped the cluster.
    Gone,
}

/// A ready endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) picked: Arc<Picked>,
    pub(crate) subchannel: Arc<Subchannel>,
    pub(crate) connections: Connections,
}

/// What [`Cluster::pick`] found.
pub(crate) enum Pick {
    Endpoint(Ticket),
    Wait,
    Fail(Status),
    Gone,
}

/// The right to send one request on a connection.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) sender: SendRequest<RequestBody>,
    pub(crate) in_flight: InFlight,
    pub(crate) picked: Arc<Picked>,
}

impl Cluster {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let connecting = Picker {
            drops: Drops::default(),
            state: PickerState::Connecting,
        };
        Self {
            name,
            picker: ArcSwap::from_pointee(connecting),
        }
    }

    pub(crate) fn set(&self, picker: Picker) {
        self.picker.store(Arc::new(picker));
    }

    pub(crate) fn pick(&self) -> Pick {
        let picker = self.picker.load();
        // Drops come first and hold whatever the endpoints' state (C-245).
        if let Some(category) = picker.drops.pick() {
            let text = format!("cluster {}: dropped ({category})", self.name);
            return Pick::Fail(Status::unavailable(text));
        }
        match &picker.state {
            PickerState::Ready(localities) => localities.pick().map_or(Pick::Wait, Pick::Endpoint),
            PickerState::Connecting => Pick::Wait,
            PickerState::Failed(status) => Pick::Fail(status.clone()),
            PickerState::Gone => Pick::Gone,
        }
    }
}

impl Endpoint {
    fn ticket(&self) -> Option<Ticket> {
        let connection = self.connection()?;
        Some(Ticket {
            sender: connection.sender(),
            in_flight: connection.begin(),
            picked: Arc::clone(&self.picked),
        })
    }

    fn connection(&self) -> Option<&Arc<Connection>> {
        let open = || self.connections.iter().filter(|connection| connection.is_open());
        open().find(|connection| connection.has_room()).or_else(|| {
            self.subchannel.grow();
            // hyper queues what exceeds MAX_CONCURRENT_STREAMS, in order.
            open().min_by_key(|connection| connection.in_flight())
        })
    }
}
