//! Pickers: the endpoints that an RPC may go to, in the form that the request path reads.
//!
//! A [`ClusterHandle`] lives as long as its name is in the configuration; its [`Picker`] is replaced
//! whenever an endpoint becomes ready or fails, another priority becomes active, or the assignment changes.
//! Only counters and connections change in a picker, so a pick is a few atomic operations: no lock, no
//! allocation. The choice itself is made by [`oxds_core::lb::policy`].

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use oxds_client::load;
use oxds_client::load::LocalityLoad;
use oxds_core::lb::policy::{Children, Pick, PickCall, PolicyConfig, PolicyPicker};
use oxds_core::lb::{Connectivity, dropped};
use oxds_core::resource::Assignment;
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use crate::endpoint::{ChildCell, EndpointEntry, PickChild, Picked};
use crate::guard::AttemptGuard;
use crate::limits::RequestLimit;
use crate::random::random;
use crate::subchannel::RequestSender;

/// Number of children that a pick tries before it waits. A picked child may have lost its last connection a moment ago; the
/// next picker will not have it.
const MAX_TRIES: usize = 4;

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
    /// Circuit breaker of the cluster; `None` while there is no cluster.
    pub(crate) limit: Option<Arc<RequestLimit>>,
    pub(crate) state: PickerState,
    /// The active priority, for the status.
    pub(crate) priority: Option<usize>,
    /// The policy and the size of its hash ring, for the status.
    pub(crate) policy: Option<PolicyConfig>,
    pub(crate) ring_size: Option<usize>,
    /// Every endpoint of the assignment, for the status and channelz.
    pub(crate) endpoints: Arc<[EndpointEntry]>,
}

#[derive(Debug)]
pub(crate) enum PickerState {
    /// No priority is active yet: RPCs wait.
    Connecting,
    /// No endpoint can become ready without an update: RPCs fail with this status.
    Failed(Status),
    /// The policy of the active priority decides.
    Active(ActivePicker),
    /// The configuration no longer contains the cluster.
    Removed,
}

/// Counters of dropped RPCs, if the cluster's load is reported: one per category, in the order of the
/// assignment.
pub(crate) type DropCounts = Arc<[Arc<load::DropCount>]>;

/// The policy of the active priority, with its children.
#[derive(Debug)]
pub(crate) struct ActivePicker {
    pub(crate) state: Connectivity,
    pub(crate) policy: Arc<PolicyPicker>,
    pub(crate) children: Arc<[PickChild]>,
    /// Status of RPCs that the policy fails.
    pub(crate) failure: Option<Status>,
    pub(crate) wanted: WantedSender,
}

/// An idle endpoint that RPCs wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Token of the cluster's driver.
    pub(crate) token: u64,
    /// Id of the member.
    pub(crate) member: usize,
}

/// Sender of [`Wanted`] endpoints to the driver of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct WantedSender {
    token: u64,
    wanted: UnboundedSender<Wanted>,
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
    pub(crate) sender: RequestSender,
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

    pub(crate) fn pick(&self, call: &PickCall<'_>) -> PickResult {
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
        // gRFC A32: the limit applies before the state of the endpoints matters, too (C-246).
        let permit = match &picker.limit {
            None => None,
            Some(limit) => match limit.begin() {
                Some(permit) => Some(permit),
                None => {
                    let (name, max) = (&self.name, limit.max());
                    let text = format!("cluster {name}: dropped, {max} requests are in progress");
                    return PickResult::Drop(Status::unavailable(text));
                }
            },
        };
        match &picker.state {
            PickerState::Active(active) => match active.pick(call) {
                PickResult::Complete(picked) => PickResult::Complete(PickedConnection {
                    guard: picked.guard.with_permit(permit),
                    ..picked
                }),
                other => other,
            },
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
            limit: None,
            state,
            priority: None,
            policy: None,
            ring_size: None,
            endpoints: Arc::default(),
        }
    }

    /// Returns the connectivity of the active priority.
    pub(crate) fn connectivity(&self) -> Connectivity {
        match &self.state {
            PickerState::Connecting | PickerState::Removed => Connectivity::Connecting,
            PickerState::Active(active) => active.state,
            PickerState::Failed(_) => Connectivity::TransientFailure,
        }
    }

    /// Returns the weights of the children that are picked by weight, by the address of their cells.
    pub(crate) fn weights(&self) -> HashMap<*const ChildCell, u16> {
        let PickerState::Active(active) = &self.state else {
            return HashMap::new();
        };
        let weights = active.policy.weights().into_iter();
        let by_cell = weights.filter_map(|(child, weight)| {
            let child = active.children.get(child)?;
            Some((Arc::as_ptr(&child.cell), weight))
        });
        by_cell.collect()
    }

    /// Returns the status with which all RPCs to the cluster fail, if they do.
    pub(crate) fn failure(&self) -> Option<&Status> {
        match &self.state {
            PickerState::Failed(status) => Some(status),
            PickerState::Active(active) if active.state == Connectivity::TransientFailure => {
                active.failure.as_ref()
            }
            PickerState::Active(_) | PickerState::Connecting | PickerState::Removed => None,
        }
    }
}

impl ActivePicker {
    fn pick(&self, call: &PickCall<'_>) -> PickResult {
        for _ in 0..MAX_TRIES {
            match self.policy.pick(call, self, &mut random) {
                Pick::Child(child) => {
                    let picked = self.children.get(child).and_then(PickChild::pick);
                    if let Some(picked) = picked {
                        return PickResult::Complete(picked);
                    }
                }
                Pick::Connect(child) => {
                    if let Some(child) = self.children.get(child) {
                        self.wanted.send(child);
                    }
                    return PickResult::Queue;
                }
                Pick::Queue => return PickResult::Queue,
                Pick::Fail => return PickResult::Fail(self.status()),
            }
        }
        PickResult::Queue
    }

    fn status(&self) -> Status {
        let none = || Status::unavailable("no endpoint is ready");
        self.failure.clone().unwrap_or_else(none)
    }
}

impl Children for ActivePicker {
    fn in_flight(&self, child: usize) -> u32 {
        let child = self.children.get(child);
        child.map_or(0, |child| child.cell.in_flight())
    }
}

impl WantedSender {
    pub(crate) fn new(token: u64, wanted: UnboundedSender<Wanted>) -> Self {
        Self { token, wanted }
    }

    /// Asks the driver to connect a child, once until it is connecting.
    fn send(&self, child: &PickChild) {
        if child.cell.want() {
            let (token, member) = (self.token, child.member);
            // Without a driver there is no channel any more, and no RPC that waits.
            let _ = self.wanted.send(Wanted { token, member });
        }
    }
}

impl PickChild {
    fn pick(&self) -> Option<PickedConnection> {
        let ready = self.cell.ready();
        let ready = ready.as_ref()?;
        let connection = ready.connection()?;
        let address = self.addresses.get(ready.address)?;
        Some(PickedConnection {
            sender: connection.sender(),
            guard: AttemptGuard::new(connection.begin())
                .with_load(address.load.as_ref().map(LocalityLoad::begin))
                .with_results(address.results.clone())
                .with_observer(self.observer.clone()),
            picked: Arc::clone(&address.picked),
        })
    }
}
