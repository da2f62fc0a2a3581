//! Pickers: the endpoints that an RPC may go to, in the form that the request path reads.
//!
//! A [`ClusterHandle`] lives as long as the routes name the cluster or an RPC may still be sent to it; its [`Picker`]
//! is replaced whenever an endpoint becomes ready or fails, another priority becomes active, or the assignment changes.
//! Only counters and connections change in a picker, so a pick is a few atomic operations: no lock, no allocation. The
//! choice itself is made by [`oxds_core::lb::policy`].

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use oxds_client::load;
use oxds_core::lb::policy::{Children, Pick, PickCall, PolicyConfig, PolicyPicker};
use oxds_core::lb::{Connectivity, SessionTarget, dropped};
use oxds_core::resource::Assignment;
use oxds_net::rpc::random;
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use crate::attempt::Dropped;
use crate::connection_request::{ConnectionRequester, RequestedEndpoint};
use crate::endpoint::{ChildCell, EndpointEntry, PickChildren, PickedConnection};
use crate::endpoint_table::EndpointTable;
use crate::limits::RequestLimit;
use crate::session::{CallSession, SessionPick, SessionTable};
use crate::subchannel::Subchannel;

/// Number of children that a pick tries before it waits. A picked child may have lost its last connection a moment ago;
/// the next picker will not have it.
const MAX_TRIES: usize = 4;

/// A cluster of the configuration, with its picker of the moment.
///
/// The routing table and the RPCs that chose the cluster hold it. Its drop is reported to the driver, which then
/// releases the cluster (gRFC A31, C-231).
#[derive(Debug)]
pub(crate) struct ClusterHandle {
    pub(crate) name: Arc<str>,
    picker: ArcSwap<Picker>,
    /// The routes no longer name the cluster.
    is_retired: AtomicBool,
    released: ReleasedSender,
}

/// Sender of the tokens of clusters that neither the routes nor RPCs use any more.
#[derive(Clone, Debug)]
pub(crate) struct ReleasedSender {
    token: u64,
    released: UnboundedSender<u64>,
}

/// Decides, for one cluster, where the next RPC goes.
#[derive(Debug)]
pub(crate) struct Picker {
    /// Assignment with the drop categories; `None` without an assignment.
    pub(crate) assignment: Option<Arc<Assignment>>,
    pub(crate) drops: DropCounts,
    /// Circuit breaker of the cluster; `None` without a configuration.
    pub(crate) limit: Option<Arc<RequestLimit>>,
    /// Endpoints of sessions; `None` if no route has sessions.
    pub(crate) sessions: Option<Arc<SessionTable>>,
    pub(crate) state: PickerState,
    /// The active priority and the cluster to which it belongs, for the status.
    pub(crate) priority: Option<usize>,
    pub(crate) leaf: Option<Arc<str>>,
    /// The policy and the size of its hash ring, for the status.
    pub(crate) policy: Option<PolicyConfig>,
    pub(crate) ring_size: Option<usize>,
    /// Every endpoint of the assignment, for the status and channelz.
    pub(crate) endpoints: Arc<EndpointTable>,
}

#[derive(Debug)]
pub(crate) enum PickerState {
    /// No priority is active yet: RPCs wait.
    Connecting,
    /// No endpoint can become ready without an update: RPCs fail with this status.
    Failed(Status),
    /// The policy of the active priority decides.
    Active(ActivePicker),
}

/// Counters of dropped RPCs, if the cluster's load is reported: one per category, in the order of the
/// assignment.
pub(crate) type DropCounts = Arc<[Arc<load::DropCount>]>;

/// The policy of the active priority, with its children.
#[derive(Debug)]
pub(crate) struct ActivePicker {
    pub(crate) state: Connectivity,
    pub(crate) policy: Arc<PolicyPicker>,
    pub(crate) children: PickChildren,
    /// Status of RPCs that the policy fails.
    pub(crate) failure: Option<Status>,
    pub(crate) requester: ConnectionRequester,
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
}

impl ClusterHandle {
    pub(crate) fn new(name: Arc<str>, released: ReleasedSender) -> Self {
        let picker = ArcSwap::from_pointee(Picker::without_endpoints(PickerState::Connecting));
        Self {
            name,
            picker,
            is_retired: AtomicBool::new(false),
            released,
        }
    }

    /// Records whether the routes name the cluster. Wake the RPCs that wait afterwards.
    pub(crate) fn set_retired(&self, is_retired: bool) {
        self.is_retired.store(is_retired, Ordering::Relaxed);
    }

    /// Returns whether the routes no longer name the cluster, so that no update of it comes any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, picker: Picker) {
        self.picker.store(Arc::new(picker));
    }

    pub(crate) fn picker(&self) -> Arc<Picker> {
        self.picker.load_full()
    }

    /// Picks an endpoint for an attempt, of the session if the RPC has one.
    pub(crate) fn pick(&self, call: &PickCall<'_>, session: Option<&CallSession>) -> PickResult {
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
            let dropped = Dropped::in_category(&self.name, &drop.category);
            return PickResult::Drop(dropped.into_status());
        }
        // gRFC A32: the limit applies before the state of the endpoints matters, too (C-246).
        let permit = match &picker.limit {
            None => None,
            Some(limit) => match limit.begin() {
                Some(permit) => Some(permit),
                None => {
                    let dropped = Dropped::at_limit(&self.name, limit.max());
                    return PickResult::Drop(dropped.into_status());
                }
            },
        };
        match picker.pick(call, session) {
            PickResult::Complete(picked) => PickResult::Complete(PickedConnection {
                guard: picked.guard.with_permit(permit),
                ..picked
            }),
            other => other,
        }
    }

    /// Returns the target of a session that an endpoint of the cluster serves.
    pub(crate) fn session_target(&self, address: SocketAddr) -> SessionTarget {
        match &self.picker.load().sessions {
            Some(sessions) => sessions.target(address, &self.name),
            None => SessionTarget::new([address], &self.name),
        }
    }
}

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        let ReleasedSender { token, released } = &self.released;
        // The driver releases all clusters when it ends.
        let _ = released.send(*token);
    }
}

impl ReleasedSender {
    pub(crate) fn new(token: u64, released: UnboundedSender<u64>) -> Self {
        Self { token, released }
    }
}

impl Picker {
    /// Returns a picker for a cluster that has no assignment.
    pub(crate) fn without_endpoints(state: PickerState) -> Self {
        Self {
            assignment: None,
            drops: DropCounts::default(),
            limit: None,
            sessions: None,
            state,
            priority: None,
            leaf: None,
            policy: None,
            ring_size: None,
            endpoints: Arc::default(),
        }
    }

    fn pick(&self, call: &PickCall<'_>, session: Option<&CallSession>) -> PickResult {
        let session = session.and_then(|session| Some((self.sessions.as_ref()?, session)));
        // gRFC A75: a session returns to its endpoint in every state of the priorities.
        if let Some((sessions, session)) = session {
            match sessions.pick(session.target.addresses()) {
                SessionPick::Complete(picked) => return PickResult::Complete(picked),
                SessionPick::Queue => return PickResult::Queue,
                SessionPick::Delegate => {}
            }
        }
        let result = match &self.state {
            PickerState::Active(active) => active.pick(call),
            PickerState::Connecting => PickResult::Queue,
            PickerState::Failed(status) => PickResult::Fail(status.clone()),
        };
        if let (Some((sessions, _)), PickResult::Complete(picked)) = (session, &result) {
            sessions.record_use(picked.picked.address);
        }
        result
    }

    /// Returns the subchannels of an endpoint that are in use.
    pub(crate) fn subchannels(&self, entry: &EndpointEntry) -> Vec<Arc<Subchannel>> {
        let mut subchannels: Vec<_> = entry.subchannels().collect();
        if entry.child.is_none() {
            let sessions = self.sessions.as_ref();
            let own = sessions.and_then(|sessions| sessions.subchannel(entry.picked.address));
            subchannels.extend(own);
        }
        subchannels
    }

    /// Returns the connectivity of the active priority.
    pub(crate) fn connectivity(&self) -> Connectivity {
        match &self.state {
            PickerState::Connecting => Connectivity::Connecting,
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
            PickerState::Active(_) | PickerState::Connecting => None,
        }
    }
}

impl ActivePicker {
    fn pick(&self, call: &PickCall<'_>) -> PickResult {
        for _ in 0..MAX_TRIES {
            match self.policy.pick(call, self, &mut random) {
                Pick::Child(child) => {
                    let picked = self.children.get(child).and_then(|child| child.begin());
                    if let Some(picked) = picked {
                        return PickResult::Complete(PickedConnection {
                            added: self.added_headers(call, child),
                            ..picked
                        });
                    }
                }
                Pick::Connect(child) => {
                    if let Some(child) = self.children.get(child) {
                        // Once until it is connecting.
                        if child.cell.request_connection() {
                            self.requester.send(RequestedEndpoint::Member(child.member));
                        }
                    }
                    return PickResult::Queue;
                }
                Pick::Queue => return PickResult::Queue,
                Pick::Fail => return PickResult::Fail(self.status()),
            }
        }
        PickResult::Queue
    }

    /// Returns the headers that the policy adds to an attempt.
    fn added_headers(&self, call: &PickCall<'_>, child: usize) -> Option<Box<HeaderMap>> {
        let mut headers = None::<Box<HeaderMap>>;
        self.policy.add_headers(call, child, &mut |name, value| {
            let header = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
            // Names of the protocol are the channel's own.
            if let (Ok(name), Ok(value)) = header
                && !name.as_str().starts_with("grpc-")
            {
                headers.get_or_insert_default().append(name, value);
            }
        });
        headers
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
