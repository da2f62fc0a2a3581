//! The endpoints an RPC may go to, as the request path reads them.
//!
//! A [`Cluster`] lives as long as its name is in the configuration; its [`Picker`] is replaced
//! whenever an endpoint connects or fails, a priority takes over, or the assignment changes. A picker
//! itself never changes but for its counters, so a pick is loads and one `fetch_add`: no lock, no
//! allocation.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use hyper::client::conn::http2::SendRequest;
use oxds_client::load::{self, LocalityLoad};
use oxds_core::lb::{Weighted, dropped};
use oxds_core::resource::Assignment;
use tonic::Status;

use crate::body::RequestBody;
use crate::random::random;
use crate::snapshot::Known;
use crate::subchannel::{Connection, Connections, InFlight, Subchannel};

/// Where an RPC went. In the extensions of the response, as `Arc<Picked>`, if the channel was
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
    /// Where the drops are; `None` while there is no assignment.
    pub(crate) assignment: Option<Arc<Assignment>>,
    pub(crate) drops: Drops,
    pub(crate) state: PickerState,
    /// For the status: the priority in use, and every endpoint of the assignment.
    pub(crate) priority: Option<usize>,
    pub(crate) known: Arc<[Known]>,
}

#[derive(Debug)]
pub(crate) enum PickerState {
    /// No endpoint is ready yet: RPCs wait.
    Connecting,
    /// None will be without a change: RPCs fail with this.
    Failed(Status),
    Ready(Weighted<Locality>),
    /// The configuration has dropped the cluster.
    Gone,
}

/// Where drops are counted, if the cluster's load is reported: by category, in the assignment's order.
pub(crate) type Drops = Arc<[Arc<load::DropCount>]>;

/// The ready endpoints of a locality, taken by turns; never empty.
#[derive(Debug)]
pub(crate) struct Locality {
    load: Option<LocalityLoad>,
    endpoints: Box<[Endpoint]>,
    turn: AtomicUsize,
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
    /// The RPC's part in load reports.
    pub(crate) load: Option<load::Call>,
    pub(crate) picked: Arc<Picked>,
}

impl Cluster {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let picker = ArcSwap::from_pointee(Picker::without_endpoints(PickerState::Connecting));
        Self { name, picker }
    }

    pub(crate) fn set(&self, picker: Picker) {
        self.picker.store(Arc::new(picker));
    }

    pub(crate) fn picker(&self) -> Arc<Picker> {
        self.picker.load_full()
    }

    pub(crate) fn pick(&self) -> Pick {
        let picker = self.picker.load();
        // Drops come first, whatever the endpoints' state (C-245).
        let drops = picker
            .assignment
            .as_ref()
            .map_or(&[][..], |assignment| &assignment.drops);
        if let Some(drop) = dropped(drops, random) {
            let counts = drops.iter().zip(&*picker.drops);
            let mut counted = counts.filter(|(one, _)| std::ptr::eq(*one, drop));
            if let Some((_, count)) = counted.next() {
                count.add();
            }
            let text = format!("cluster {}: dropped as {}", self.name, drop.category);
            return Pick::Fail(Status::unavailable(text));
        }
        match &picker.state {
            PickerState::Ready(localities) => {
                let locality = localities.pick(random());
                // A locality may have lost its last connection a moment ago, before the driver knows.
                let mut all = std::iter::once(locality).chain(localities.items());
                all.find_map(Locality::ticket)
                    .map_or(Pick::Wait, Pick::Endpoint)
            }
            PickerState::Connecting => Pick::Wait,
            PickerState::Failed(status) => Pick::Fail(status.clone()),
            PickerState::Gone => Pick::Gone,
        }
    }
}

impl Picker {
    /// A picker of a cluster that has no assignment.
    pub(crate) fn without_endpoints(state: PickerState) -> Self {
        Self {
            assignment: None,
            drops: Drops::default(),
            state,
            priority: None,
            known: Arc::default(),
        }
    }
}

impl Locality {
    /// `None` without endpoints. Starts at a random one, for clients that all start at the first
    /// would hit it together (C-247).
    pub(crate) fn new(endpoints: Vec<Endpoint>, load: Option<LocalityLoad>) -> Option<Self> {
        (!endpoints.is_empty()).then(|| Self {
            load,
            turn: AtomicUsize::new(random() as usize % endpoints.len()),
            endpoints: endpoints.into(),
        })
    }

    fn ticket(&self) -> Option<Ticket> {
        // Relaxed: only the number of turns matters.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.endpoints.len();
        let (before, after) = self.endpoints.split_at(turn);
        let ticket = after.iter().chain(before).find_map(Endpoint::ticket)?;
        Some(Ticket {
            load: self.load.as_ref().map(LocalityLoad::begin),
            ..ticket
        })
    }
}

impl Endpoint {
    fn ticket(&self) -> Option<Ticket> {
        let connection = self.connection()?;
        Some(Ticket {
            sender: connection.sender(),
            in_flight: connection.begin(),
            load: None,
            picked: Arc::clone(&self.picked),
        })
    }

    fn connection(&self) -> Option<&Arc<Connection>> {
        let open = || {
            self.connections
                .iter()
                .filter(|connection| connection.is_open())
        };
        open().find(|connection| connection.has_room()).or_else(|| {
            // hyper queues what exceeds MAX_CONCURRENT_STREAMS, until there is another connection.
            let fullest_last = open().min_by_key(|connection| connection.in_flight())?;
            self.subchannel.grow();
            Some(fullest_last)
        })
    }
}
