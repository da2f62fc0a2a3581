//! An endpoint of an assignment: its identity, its connections, and its entry in the status.
//!
//! A child of a policy has one or more addresses, and connects to one of them at a time. Each child has a
//! [`ChildCell`]: the driver writes it, picks and the status read it. So an endpoint that gets one more connection
//! changes no picker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use oxds_client::load::LocalityLoad;
use oxds_core::lb::{CallResults, EjectionReason};
use smallvec::SmallVec;

use crate::attempt::{AttemptGuard, AttemptObserver, Picked};
use crate::stream::{Connection, RequestSender};
use crate::subchannel::{Connections, Subchannel};

/// Ejection of an endpoint by outlier detection (gRFC A50).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ejected {
    /// Rule that the endpoint broke.
    pub reason: EjectionReason,
    /// Time at which it may return; it does so at the next interval of the detection.
    pub until: Instant,
}

/// Connections of a policy's child. It stays the same while the child has the same addresses, also in another priority.
#[derive(Debug)]
pub(crate) struct ChildCell {
    /// `None` while the child is not ready.
    ready: ArcSwapOption<ReadyChild>,
    /// An RPC waits for the child, which is idle, and the driver knows it.
    is_requested: AtomicBool,
    /// Subchannels of the addresses, in their order, for the status; `None` for those that are not in use.
    subchannels: Mutex<SmallVec<[Option<Arc<Subchannel>>; 1]>>,
}

/// The connections of a child that is ready.
#[derive(Debug)]
pub(crate) struct ReadyChild {
    /// Index of the address in the child.
    pub(crate) address: usize,
    pub(crate) subchannel: Arc<Subchannel>,
    pub(crate) connections: Connections,
}

/// A child of a policy, as picks see it.
#[derive(Debug)]
pub(crate) struct PickChild {
    /// Id of the driver's member.
    pub(crate) member: usize,
    pub(crate) cell: Arc<ChildCell>,
    /// Addresses, in the order in which they are tried.
    pub(crate) addresses: SmallVec<[PickAddress; 1]>,
    /// Observer of its attempts, if the policy needs one.
    pub(crate) observer: Option<Arc<dyn AttemptObserver>>,
}

/// The children of a policy, as picks see them. Updates share those that they do not change.
pub(crate) type PickChildren = Arc<[Arc<PickChild>]>;

/// An address of a child.
#[derive(Clone, Debug)]
pub(crate) struct PickAddress {
    pub(crate) picked: Arc<Picked>,
    /// The load of its locality, if the cluster reports load.
    pub(crate) load: Option<LocalityLoad>,
    /// Results of the endpoint's calls, if the cluster has outlier detection.
    pub(crate) results: Option<Arc<CallResults>>,
}

/// Addresses of an endpoint, in the order of the assignment. Updates that do not change the endpoint share them.
pub(crate) type Addresses = Arc<[PickAddress]>;

/// Permission to send one request on a connection, already counted as in flight.
#[derive(Debug)]
pub(crate) struct PickedConnection {
    pub(crate) sender: RequestSender,
    /// Counts the attempt until its end.
    pub(crate) guard: AttemptGuard,
    pub(crate) picked: Arc<Picked>,
    /// Headers that the policy adds to the attempt; `None` for most.
    pub(crate) added: Option<Box<HeaderMap>>,
}

/// An endpoint of the assignment, with its connections if its priority was tried.
#[derive(Clone, Debug)]
pub(crate) struct EndpointEntry {
    pub(crate) picked: Arc<Picked>,
    /// The child of this endpoint, and the indexes of its addresses in the child.
    pub(crate) child: Option<(Arc<ChildCell>, SmallVec<[u32; 2]>)>,
    pub(crate) ejected: Option<Ejected>,
    /// Only sessions use it (gRFC A55).
    pub(crate) is_draining: bool,
}

impl ChildCell {
    /// Returns the cell of a child with this number of addresses, which is idle.
    pub(crate) fn new(addresses: usize) -> Self {
        Self {
            ready: ArcSwapOption::empty(),
            is_requested: AtomicBool::new(false),
            subchannels: Mutex::new(SmallVec::from_elem(None, addresses)),
        }
    }

    /// Sets the subchannel of an address.
    pub(crate) fn set_subchannel(&self, address: usize, subchannel: Option<&Arc<Subchannel>>) {
        let mut all = self
            .subchannels
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = all.get_mut(address) {
            *slot = subchannel.cloned();
        }
    }

    pub(crate) fn subchannel(&self, address: usize) -> Option<Arc<Subchannel>> {
        let all = self
            .subchannels
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.get(address)?.clone()
    }

    /// Replaces the connections; `None` for a child that is not ready.
    pub(crate) fn set_ready(&self, ready: Option<ReadyChild>) {
        self.ready.store(ready.map(Arc::new));
    }

    /// Returns the connections, if the child is ready.
    pub(crate) fn ready(&self) -> arc_swap::Guard<Option<Arc<ReadyChild>>> {
        self.ready.load()
    }

    /// Records that an RPC waits for the child. Returns whether the driver must be notified.
    pub(crate) fn request_connection(&self) -> bool {
        !self.is_requested.swap(true, Ordering::Relaxed)
    }

    /// Records that the driver has connected the child.
    pub(crate) fn clear_request(&self) {
        self.is_requested.store(false, Ordering::Relaxed);
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
            // gRFC A105: all connections are at MAX_CONCURRENT_STREAMS, so ask for one more. The RPC queues on the
            // connection with the fewest streams.
            let emptiest = open().min_by_key(|connection| connection.in_flight())?;
            self.subchannel.grow();
            Some(emptiest)
        })
    }
}

impl PickChild {
    /// Begins an attempt; `None` if the child is not ready.
    pub(crate) fn begin(&self) -> Option<PickedConnection> {
        let ready = self.cell.ready();
        let ready = ready.as_ref()?;
        let address = self.addresses.get(ready.address)?;
        let picked = address.begin(ready.connection()?);
        Some(PickedConnection {
            guard: picked.guard.with_observer(self.observer.clone()),
            ..picked
        })
    }
}

impl PickAddress {
    /// Begins an attempt on a connection to the address.
    pub(crate) fn begin(&self, connection: &Arc<Connection>) -> PickedConnection {
        PickedConnection {
            sender: connection.sender(),
            guard: AttemptGuard::new(connection.begin())
                .with_load(self.load.as_ref().map(LocalityLoad::begin))
                .with_results(self.results.clone()),
            picked: Arc::clone(&self.picked),
            added: None,
        }
    }
}

impl EndpointEntry {
    /// Returns the subchannels of its addresses that are in use.
    pub(crate) fn subchannels(&self) -> impl Iterator<Item = Arc<Subchannel>> {
        let child = self.child.iter();
        let addresses = child.flat_map(|(cell, addresses)| {
            addresses
                .iter()
                .map(move |address| (cell, *address as usize))
        });
        addresses.filter_map(|(cell, address)| cell.subchannel(address))
    }
}
