//! Driver of one cluster: connects its endpoints, chooses the priority, builds its pickers.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use oxds_core::ads::WatchError;
use oxds_core::lb::{ActivePriority, Connectivity, Ejection, Priorities};
use oxds_core::resolve::ClusterConfig;
use oxds_core::resource::{Discovery, DnsTarget};
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use tonic::{Code, Status};

use super::leaf::{Leaf, LeafContext, continued_priorities};
use super::level::{LevelContext, LevelPlace, PriorityLevel};
use super::members::{ChildPlace, Members, Scope};
use crate::attempt::status;
use crate::connection_request::{ConnectionRequester, RequestedEndpoint};
use crate::endpoint::Ejected;
use crate::endpoint_table::EndpointTable;
use crate::epoch::Epoch;
use crate::picker::{ActivePicker, ClusterHandle, Picker, PickerState, ReleasedSender};

/// A cluster's part of a configuration, or the error of that cluster alone.
type ClusterResult = Result<Arc<ClusterConfig>, WatchError>;

/// Drives one cluster. After [`configure`](Self::configure) or [`refresh`](Self::refresh), call
/// [`update_picker`](Self::update_picker); call it again at [`poll_timeout`](Self::poll_timeout).
pub(super) struct ClusterDriver {
    name: Arc<str>,
    /// Gone when neither the routes nor an RPC use the cluster.
    handle: Weak<ClusterHandle>,
    requester: ConnectionRequester,
    released: ReleasedSender,
    context: LevelContext,
    config: Option<ClusterResult>,
    /// A route keeps sessions at endpoints.
    has_sessions: bool,
    /// Clusters with endpoints, in the order of failover; empty if the cluster has an error.
    leaves: Vec<Leaf>,
    /// The priorities of all leaves, the highest first (gRFC A37).
    levels: Vec<PriorityLevel>,
    members: Members,
    failover: Failover,
    picker: PickerChanges,
    /// Hosts of DNS clusters to which a connection has failed or has ended.
    failed_hosts: BTreeSet<DnsTarget>,
}

/// Choice of the priority (gRFC A56). A configuration renumbers the priorities.
struct Failover {
    priorities: Priorities,
    active: Option<ActivePriority>,
    /// Instant at which the failover timer of a connecting priority expires.
    timer: Option<Instant>,
    /// Number of priorities whose endpoints are members and whose state was given to `priorities`.
    connected: usize,
}

/// Changes that the picker in use does not show.
struct PickerChanges {
    /// The configuration or a member changed since the last `update_picker`.
    changed: bool,
    /// The picker does not show the configuration, or the members, of now.
    is_outdated: bool,
    /// Error of the RPCs that the picker fails while all endpoints of the active priority do.
    failed_with: Option<String>,
    /// Every endpoint, for the status. `None` after the levels or the members changed.
    table: Option<Arc<EndpointTable>>,
}

impl ClusterDriver {
    /// `requester` asks the driver to connect the idle endpoints that RPCs wait for, and `released` that the handle was
    /// dropped.
    pub(super) fn new(
        name: Arc<str>,
        members: Members,
        requester: ConnectionRequester,
        released: ReleasedSender,
        epoch: Epoch,
    ) -> Self {
        Self {
            name,
            handle: Weak::new(),
            requester,
            released,
            context: LevelContext {
                seed: random(),
                epoch,
            },
            config: None,
            has_sessions: false,
            leaves: Vec::new(),
            levels: Vec::new(),
            members,
            failover: Failover {
                priorities: Priorities::new(),
                active: None,
                timer: None,
                connected: 0,
            },
            picker: PickerChanges {
                changed: true,
                is_outdated: true,
                failed_with: None,
                table: None,
            },
            failed_hosts: BTreeSet::new(),
        }
    }

    /// Returns the handle for the routes. Call [`update_picker`](Self::update_picker) afterwards.
    pub(super) fn handle(&mut self) -> Arc<ClusterHandle> {
        if let Some(handle) = self.handle.upgrade() {
            handle.set_retired(false);
            return handle;
        }
        let (name, released) = (Arc::clone(&self.name), self.released.clone());
        let handle = Arc::new(ClusterHandle::new(name, released));
        self.handle = Arc::downgrade(&handle);
        self.picker.changed = true;
        self.picker.is_outdated = true;
        handle
    }

    /// Returns whether the routes or an RPC use the cluster.
    pub(super) fn is_used(&self) -> bool {
        self.handle.strong_count() > 0
    }

    /// Records that the routes no longer name the cluster. It serves the RPCs that have chosen it, with its last
    /// configuration.
    pub(super) fn retire(&self) {
        if let Some(handle) = self.handle.upgrade() {
            handle.set_retired(true);
        }
    }

    /// Applies the cluster's part of a new configuration. `has_sessions` tells whether a route keeps sessions at
    /// endpoints.
    pub(super) fn configure(
        &mut self,
        now: Instant,
        config: &ClusterResult,
        has_sessions: bool,
        context: LeafContext<'_>,
    ) {
        if self.config.as_ref() == Some(config) && self.has_sessions == has_sessions {
            return;
        }
        self.config = Some(config.clone());
        self.has_sessions = has_sessions;
        let mut old: Vec<_> = std::mem::take(&mut self.leaves);
        let before: Vec<_> = old.iter().map(|leaf| Arc::clone(&leaf.config)).collect();
        let after = config.as_ref().map_or(&[][..], |config| &config.leaves);
        let continued = continued_priorities(&before, after);
        for leaf in after {
            let is_it = |old: &Leaf| old.config.cluster.name == leaf.cluster.name;
            let same = old
                .iter()
                .position(is_it)
                .map(|index| old.swap_remove(index));
            self.leaves
                .push(Leaf::new(now, leaf, context, same, &self.members));
        }
        let mut old_levels: Vec<_> = std::mem::take(&mut self.levels)
            .into_iter()
            .map(Some)
            .collect();
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            let first = self.levels.len();
            for number in 0..leaf.priorities() {
                let place = LevelPlace {
                    leaf: index,
                    number,
                    priority: first + number,
                };
                let old = continued.get(place.priority).copied().flatten();
                let before = old.and_then(|old| old_levels.get_mut(old)?.take());
                self.levels.push(leaf.level(place, before, self.context));
            }
            let context = || (self.requester.clone(), self.context.epoch);
            let levels = &self.levels[first..];
            leaf.configure_sessions(now, levels, has_sessions.then(context));
        }
        self.picker.table = None;
        // gRFC A56: a priority that continues an old one may have other endpoints now. Their state is
        // reported before a priority is chosen, otherwise the state of removed endpoints would decide
        // (C-243).
        self.failover.priorities.renumber(&continued);
        let tried = std::mem::take(&mut self.failover.connected);
        for (priority, old) in continued.iter().enumerate() {
            if old.is_some_and(|old| old < tried) {
                self.connect_changed(now, priority);
                self.report(now, priority);
            }
        }
        self.picker.changed = true;
        self.picker.is_outdated = true;
    }

    /// Handles a changed connectivity of an endpoint.
    pub(super) fn refresh(&mut self, now: Instant, address: SocketAddr) {
        // The member may be removed before its change is read.
        for (place, state) in self.members.refresh(now, address) {
            self.set_state(place, state);
        }
        for leaf in &mut self.leaves {
            // RPCs of a session may wait for it.
            self.picker.changed |= leaf.sessions.refresh(now, address);
        }
    }

    /// Connects the endpoint that an RPC waits for.
    pub(super) fn connect_requested(&mut self, now: Instant, endpoint: RequestedEndpoint) {
        match endpoint {
            RequestedEndpoint::Member(id) => {
                if let Some((place, state)) = self.members.connect(now, id) {
                    self.set_state(place, state);
                }
            }
            RequestedEndpoint::Session(address) => {
                let index = self.active_leaf_index();
                if let Some(leaf) = self.leaves.get_mut(index) {
                    let (name, security) = (&leaf.config.cluster.name, &leaf.security);
                    let scope = Scope::new(name, security);
                    leaf.sessions.connect(now, scope, address);
                }
                self.picker.changed = true;
            }
        }
    }

    fn set_state(&mut self, place: ChildPlace, state: Connectivity) {
        if let Some(level) = self.levels.get_mut(place.priority) {
            level.set_state(place.child, state);
            // gRFC A37: an endpoint that fails or loses its connection asks for the addresses of the host again
            // (C-254). The control plane sends assignments by itself (C-255).
            if let Some(leaf) = self.leaves.get(level.leaf())
                && let Discovery::LogicalDns(host) = &leaf.config.cluster.discovery
                && matches!(state, Connectivity::TransientFailure | Connectivity::Idle)
            {
                self.failed_hosts.insert(host.clone());
            }
        }
        self.picker.changed = true;
    }

    /// Returns the hosts of DNS clusters to which a connection has failed or has ended since the last call.
    pub(super) fn take_failed_hosts(&mut self) -> BTreeSet<DnsTarget> {
        std::mem::take(&mut self.failed_hosts)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let levels = self.levels.iter().filter_map(PriorityLevel::poll_timeout);
        let detectors = self.leaves.iter();
        let detectors = detectors.flat_map(|leaf| {
            let times = [leaf.detector.poll_timeout(), leaf.sessions.poll_timeout()];
            times.into_iter().flatten()
        });
        let others = self
            .failover
            .timer
            .into_iter()
            .chain(self.members.poll_timeout());
        levels.chain(detectors).chain(others).min()
    }

    /// Chooses the priority and puts a new picker into use if necessary. Returns false if nothing changed since the
    /// last call.
    pub(super) fn update_picker(&mut self, now: Instant) -> bool {
        let timed_out = self.poll_timeout().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.picker.changed) && !timed_out {
            return false;
        }
        for (place, state) in self.members.handle_timeout(now) {
            self.set_state(place, state);
        }
        for leaf in &mut self.leaves {
            leaf.sessions.handle_timeout(now);
        }
        self.detect_outliers(now);
        for priority in 0..self.failover.connected {
            self.picker.is_outdated |= self.levels[priority].update(now, &mut self.members);
            self.report(now, priority);
        }
        self.picker.changed = false;
        let active = self.failover.active;
        self.choose_priority(now);
        self.failover.timer = self.failover.priorities.poll_timeout(now);
        // gRFC A27, A61: a priority that connects again stays in TRANSIENT_FAILURE, with the error of its last attempt.
        let failed_with = self.last_failure();
        self.picker.is_outdated |= failed_with != self.picker.failed_with;
        self.picker.failed_with = failed_with;
        // A ready endpoint that gets or loses a connection changes no picker; RPCs that wait for it must still decide
        // again.
        if (std::mem::take(&mut self.picker.is_outdated) || active != self.failover.active)
            && let Some(handle) = self.handle.upgrade()
        {
            let endpoints = self.endpoint_table(now);
            let leaf = self.active_leaf();
            handle.set(Picker {
                assignment: leaf.and_then(|leaf| leaf.config.assignment.clone()),
                drops: leaf.map(|leaf| Arc::clone(&leaf.drops)).unwrap_or_default(),
                limit: leaf.map(|leaf| Arc::clone(&leaf.limit)),
                sessions: leaf.and_then(|leaf| leaf.sessions.table().cloned()),
                state: self.picker_state(),
                priority: self.failover.active.map(|active| active.priority),
                leaf: leaf.map(|leaf| Arc::clone(&leaf.config.cluster.name)),
                policy: leaf.map(|leaf| leaf.config.cluster.policy.clone()),
                ring_size: self.ring_size(),
                endpoints,
            });
        }
        true
    }

    /// Ejects endpoints whose RPCs fail, and lets ejected ones return (gRFC A50).
    fn detect_outliers(&mut self, now: Instant) {
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            let has_changed = leaf.detector.handle_timeout(now, random);
            if let Some(metrics) = self.members.metrics() {
                leaf.record_ejections(metrics);
            }
            if !has_changed {
                continue;
            }
            let levels = self.levels.iter_mut().filter(|level| level.leaf() == index);
            for level in levels {
                level.set_ejections(|address| leaf.detector.ejection(address).is_some());
            }
            leaf.set_session_ejections();
            // The status shows ejections.
            self.picker.table = None;
            self.picker.is_outdated = true;
        }
    }

    fn choose_priority(&mut self, now: Instant) {
        let before = self.failover.connected;
        loop {
            self.failover.active = self.failover.priorities.choose(now);
            let tried = self.failover.priorities.tried();
            // gRFC A56: a priority is created only when it is needed (C-240). One that is tried for the
            // first time may be connected already, by another channel: choose again with its state.
            for priority in self.failover.connected..tried {
                self.connect_changed(now, priority);
                self.report(now, priority);
            }
            let is_final = tried <= self.failover.connected;
            self.failover.connected = tried;
            if is_final {
                break;
            }
        }
        // gRFC A56: lower priorities than the active one are deactivated (C-242).
        for level in self.levels.iter_mut().skip(self.failover.connected) {
            level.disconnect();
        }
        if self.failover.connected != before || self.picker.table.is_none() {
            let levels = self.levels.iter();
            self.members.retain(levels.flat_map(PriorityLevel::members));
            self.picker.table = None;
            self.picker.is_outdated = true;
        }
    }

    /// Makes the children of a priority members, which connects them if the policy does so. Has no effect on a priority
    /// whose children are members.
    fn connect_changed(&mut self, now: Instant, priority: usize) {
        let level = &mut self.levels[priority];
        if level.is_connected() {
            level.update(now, &mut self.members);
            return;
        }
        let leaf = &self.leaves[level.leaf()];
        level.connect(now, priority, &leaf.security, &mut self.members);
        // gRFC A50: an endpoint that continues is still ejected.
        level.set_ejections(|address| leaf.detector.ejection(address).is_some());
        level.update(now, &mut self.members);
        self.picker.table = None;
    }

    /// Gives the state of a priority to the priority policy.
    fn report(&mut self, now: Instant, priority: usize) {
        if let Some(state) = self.levels[priority].state() {
            self.failover.priorities.handle_state(now, priority, state);
        }
    }

    /// Returns the place in memory of the endpoints of each priority.
    #[cfg(test)]
    pub(super) fn endpoint_tables(&self) -> Vec<usize> {
        let tables = self.levels.iter().map(PriorityLevel::endpoints);
        tables.map(|table| table.as_ptr().addr()).collect()
    }

    /// Returns the size of the hash ring of the active priority.
    fn ring_size(&self) -> Option<usize> {
        self.levels
            .get(self.failover.active?.priority)?
            .policy()
            .ring_size()
    }

    fn picker_state(&self) -> PickerState {
        let failed = |error: &str| PickerState::Failed(self.failure(error));
        match (&self.config, self.failover.active) {
            // gRFC A74: the error of one cluster fails only the RPCs that go to it (C-220).
            (Some(Err(error)), _) => failed(&error.to_string()),
            // gRFC A27: an assignment without endpoints is valid, and its cluster unreachable (C-216).
            (_, None) => failed(&self.with_note("no usable endpoints")),
            (_, Some(active)) => self
                .active_picker(active)
                .map_or(PickerState::Connecting, PickerState::Active),
        }
    }

    fn active_picker(&self, active: ActivePriority) -> Option<ActivePicker> {
        let level = self.levels.get(active.priority)?;
        let (policy, children) = level.picker()?;
        // A ring hash fails RPCs by their hash, also while others are ready.
        let fails =
            active.state == Connectivity::TransientFailure || level.policy().ring_size().is_some();
        Some(ActivePicker {
            state: active.state,
            policy,
            children,
            failure: fails.then(|| self.failure(&self.with_note(&self.failure_text(level)))),
            requester: self.requester.clone(),
        })
    }

    /// Returns the status of RPCs that fail with this error.
    fn failure(&self, error: &str) -> Status {
        let text = format!("cluster {}: {error}", self.name);
        status::of_control_plane(Code::Unavailable, text)
    }

    /// Returns the error text of the active priority if it has failed.
    fn last_failure(&self) -> Option<String> {
        let failed = |active: &ActivePriority| active.state == Connectivity::TransientFailure;
        let active = self.failover.active.filter(failed)?;
        Some(self.failure_text(self.levels.get(active.priority)?))
    }

    /// Returns the error text of a failed priority, with the error of its last endpoint.
    fn failure_text(&self, level: &PriorityLevel) -> String {
        let mut errors = level.failed().filter_map(|id| {
            let (address, error) = self.members.error(id)?;
            Some(format!("{address}: {error}"))
        });
        // gRFC A27, A61: the status of a failed pick carries the last connection error (C-247).
        let last = errors.next_back();
        match (last, level.has_ejections()) {
            (Some(last), _) => format!("all endpoints unreachable, last error {last}"),
            (None, true) => "all endpoints are ejected by outlier detection".to_owned(),
            (None, false) => "no usable endpoints".to_owned(),
        }
    }

    /// Adds the resolution note of the cluster, if it has one.
    fn with_note(&self, failure: &str) -> String {
        // gRFC A74: an EDS or DNS error keeps the cluster, and its text is in the RPC status (C-220).
        let leaf = self.active_leaf();
        let note = leaf.and_then(|leaf| leaf.config.note.as_ref());
        note.map_or_else(|| failure.to_owned(), |note| format!("{failure}; {note}"))
    }

    /// Returns the leaf of the active priority, or else the first one.
    fn active_leaf(&self) -> Option<&Leaf> {
        self.leaves.get(self.active_leaf_index())
    }

    fn active_leaf_index(&self) -> usize {
        let active = self
            .failover
            .active
            .and_then(|active| self.levels.get(active.priority));
        active.map_or(0, PriorityLevel::leaf)
    }

    fn endpoint_table(&mut self, now: Instant) -> Arc<EndpointTable> {
        let (levels, leaves) = (&self.levels, &self.leaves);
        let table = self.picker.table.get_or_insert_with(|| {
            let ejections = leaves.iter().map(|leaf| Arc::new(ejected_of(now, leaf)));
            let ejections: Vec<_> = ejections.collect();
            let of_level = |level: &PriorityLevel| level.table(&ejections[level.leaf()]);
            let draining = levels.iter().flat_map(|level| {
                let ejected = &ejections[level.leaf()];
                leaves[level.leaf()]
                    .draining_entries(level, |address| ejected.get(&address).copied())
            });
            Arc::new(EndpointTable {
                levels: levels.iter().map(of_level).collect(),
                draining: draining.collect(),
            })
        });
        Arc::clone(table)
    }
}

/// Returns the ejected endpoints of a leaf.
fn ejected_of(now: Instant, leaf: &Leaf) -> HashMap<SocketAddr, Ejected> {
    let ejections = leaf.detector.ejections();
    ejections
        .filter_map(|(address, ejection)| Some((address, ejected(now, ejection)?)))
        .collect()
}

fn ejected(now: Instant, ejection: Ejection) -> Option<Ejected> {
    let left = ejection.until.saturating_since(now);
    Some(Ejected {
        reason: ejection.reason,
        until: std::time::Instant::now().checked_add(left)?,
    })
}
