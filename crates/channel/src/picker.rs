//! Pickers: the endpoints that an RPC may go to, in the form that the request path reads.
//!
//! A [`ClusterHandle`] lives as long as its name is in the configuration; its [`Picker`] is replaced
//! whenever an endpoint connects or fails, another priority becomes active, or the assignment changes.
//! Only the counters of a picker change, so a pick is loads and one `fetch_add`: no lock, no
//! allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use oxds_client::load::{self, LocalityLoad};
use oxds_client::transport::RequestSender;
use oxds_core::lb::{Weighted, dropped};
use oxds_core::resource::Assignment;
use tonic::Status;

use crate::body::RequestBody;
use crate::endpoint::{EndpointEntry, Picked};
use crate::guard::AttemptGuard;
use crate::random::random;
use crate::subchannel::{Connection, Connections, Subchannel};

/// A cluster of the configuration, with its picker of the moment.
#[derive(Debug)]
pub(crate) struct ClusterHandle {
    pub(crate) name: Arc<str>,
    picker: ArcSwap<Picker>,
}

/// Decides, for one cluster, where the next RPC goes.
#[derive(Debug)]
pub(crate) struct Picker {
    /// Assignment with the drop categories; `None` while there is no assignment.
    pub(crate) assignment: Option<Arc<Assignment>>,
    pub(crate) drops: DropCounts,
    pub(crate) state: PickerState,
    /// The active priority, for the status.
    pub(crate) priority: Option<usize>,
    /// Every endpoint of the assignment, for the status and channelz.
    pub(crate) endpoints: Arc<[EndpointEntry]>,
}

#[derive(Debug)]
pub(crate) enum PickerState {
    /// No endpoint is ready yet: RPCs wait.
    Connecting,
    /// No endpoint can become ready without an update: RPCs fail with this status.
    Failed(Status),
    /// Localities of the active priority with ready endpoints.
    Ready(Weighted<ReadyLocality>),
    /// The configuration no longer contains the cluster.
    Removed,
}

/// Counters of dropped RPCs, if the cluster's load is reported: one per category, in the order of the
/// assignment.
pub(crate) type DropCounts = Arc<[Arc<load::DropCount>]>;

/// The ready endpoints of a locality, picked round robin; never empty.
#[derive(Debug)]
pub(crate) struct ReadyLocality {
    load: Option<LocalityLoad>,
    endpoints: Box<[ReadyEndpoint]>,
    next: AtomicUsize,
}

/// An endpoint with at least one open connection.
#[derive(Debug)]
pub(crate) struct ReadyEndpoint {
    pub(crate) picked: Arc<Picked>,
    pub(crate) subchannel: Arc<Subchannel>,
    pub(crate) connections: Connections,
}

/// Result of [`ClusterHandle::pick`]. As in gRPC's LB API: complete, queue, fail or drop.
pub(crate) enum PickResult {
    /// Send on this connection.
    Complete(PickedConnection),
    /// No endpoint is ready: wait for the next picker.
    Queue,
    /// Fail the RPC with this status, unless it is wait-for-ready: then wait for the next picker.
    Fail(Status),
    /// Fail the RPC with this status, wait-for-ready or not.
    Drop(Status),
    /// The configuration no longer contains the cluster: match the routes again.
    Removed,
}

/// Permission to send one request on a connection, already counted as in flight.
#[derive(Debug)]
pub(crate) struct PickedConnection {
    pub(crate) sender: RequestSender<RequestBody>,
    /// Counts the attempt until its end.
    pub(crate) guard: AttemptGuard,
    pub(crate) picked: Arc<Picked>,
}

impl ClusterHandle {
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

    pub(crate) fn pick(&self) -> PickResult {
        let picker = self.picker.load();
        // gRFC A27, A32: drops apply before the state of the endpoints matters, so a cluster without
        // endpoints can still drop everything (C-245).
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
            return PickResult::Drop(Status::unavailable(text));
        }
        match &picker.state {
            PickerState::Ready(localities) => {
                // gRFC A27: a locality gets its share of the weight of all ready localities (C-244).
                let locality = localities.pick(random());
                // A locality may have lost its last connection before the driver saw it: try the others.
                let mut candidates = std::iter::once(locality).chain(localities.items());
                candidates
                    .find_map(ReadyLocality::pick)
                    .map_or(PickResult::Queue, PickResult::Complete)
            }
            PickerState::Connecting => PickResult::Queue,
            PickerState::Failed(status) => PickResult::Fail(status.clone()),
            PickerState::Removed => PickResult::Removed,
        }
    }
}

impl Picker {
    /// Returns a picker for a cluster that has no assignment.
    pub(crate) fn without_endpoints(state: PickerState) -> Self {
        Self {
            assignment: None,
            drops: DropCounts::default(),
            state,
            priority: None,
            endpoints: Arc::default(),
        }
    }
}

impl ReadyLocality {
    /// Returns `None` without endpoints.
    pub(crate) fn new(endpoints: Vec<ReadyEndpoint>, load: Option<LocalityLoad>) -> Option<Self> {
        (!endpoints.is_empty()).then(|| Self {
            load,
            // gRFC A27, A61: round robin starts at a random endpoint, otherwise all clients would
            // call the first endpoint at the same time (C-247).
            next: AtomicUsize::new(random() as usize % endpoints.len()),
            endpoints: endpoints.into(),
        })
    }

    fn pick(&self) -> Option<PickedConnection> {
        // Relaxed: only the number of picks matters, not their order.
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len();
        let (before, after) = self.endpoints.split_at(next);
        let picked = after.iter().chain(before).find_map(ReadyEndpoint::pick)?;
        let load = self.load.as_ref().map(LocalityLoad::begin);
        Some(PickedConnection {
            guard: picked.guard.with_load(load),
            ..picked
        })
    }
}

impl ReadyEndpoint {
    fn pick(&self) -> Option<PickedConnection> {
        let connection = self.connection()?;
        Some(PickedConnection {
            sender: connection.sender(),
            guard: AttemptGuard::new(connection.begin()),
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
            // gRFC A105: all connections are at MAX_CONCURRENT_STREAMS, so ask for one more. hyper
            // queues the RPC on the connection with the fewest streams.
            let emptiest = open().min_by_key(|connection| connection.in_flight())?;
            self.subchannel.grow();
            Some(emptiest)
        })
    }
}
