//! Driver of one cluster: connects its endpoints, chooses the priority, builds its pickers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::load::LoadReporter;
use oxds_core::ads::WatchError;
use oxds_core::lb::{ActivePriority, Connectivity, Ejection, Priorities};
use oxds_core::resolve::ClusterConfig;
use oxds_core::time::Instant;
use tonic::{Code, Status};

use super::epoch::Epoch;
use super::leaf::{Leaf, continued_priorities};
use super::level::{LevelContext, PriorityLevel};
use super::members::{ChildPlace, Members};
use crate::endpoint::{Ejected, EndpointEntry};
use crate::picker::{ActivePicker, ClusterHandle, Picker, PickerState, WantedSender};
use crate::random::random;
use crate::status;

/// A cluster's part of a configuration, or the error of that cluster alone.
type ClusterResult = Result<Arc<ClusterConfig>, WatchError>;

/// Drives one cluster. After [`configure`](Self::configure) or [`refresh`](Self::refresh), call
/// [`update_picker`](Self::update_picker); call it again at [`poll_timeout`](Self::poll_timeout).
pub(super) struct ClusterDriver {
    handle: Arc<ClusterHandle>,
    wanted: WantedSender,
    context: LevelContext,
    config: Option<ClusterResult>,
    /// Clusters with endpoints, in the order of failover; empty if the cluster has an error.
    leaves: Vec<Leaf>,
    /// The priorities of all leaves, the highest first (gRFC A37).
    levels: Vec<PriorityLevel>,
    members: Members,
    priorities: Priorities,
    active: Option<ActivePriority>,
    /// Instant at which the failover timer of a connecting priority expires (gRFC A56).
    failover: Option<Instant>,
    /// Number of priorities whose endpoints are members and whose state was given to `priorities`.
    connected: usize,
    /// The configuration or a member changed since the last `update_picker`.
    changed: bool,
    /// The picker does not show the configuration, or the members, of now.
    is_outdated: bool,
    /// Every endpoint, for the status. `None` after the levels or the members changed.
    entries: Option<Arc<[EndpointEntry]>>,
}

impl ClusterDriver {
    /// `wanted` tells the driver which idle endpoints RPCs wait for.
    pub(super) fn new(
        name: Arc<str>,
        members: Members,
        wanted: WantedSender,
        epoch: Epoch,
    ) -> Self {
        Self {
            wanted,
            context: LevelContext {
                seed: random(),
                epoch,
            },
            handle: Arc::new(ClusterHandle::new(name)),
            config: None,
            leaves: Vec::new(),
            levels: Vec::new(),
            members,
            priorities: Priorities::new(),
            active: None,
            failover: None,
            connected: 0,
            changed: true,
            is_outdated: true,
            entries: None,
        }
    }

    pub(super) fn handle(&self) -> &Arc<ClusterHandle> {
        &self.handle
    }

    /// Applies the cluster's part of a new configuration.
    pub(super) fn configure(
        &mut self,
        now: Instant,
        config: &ClusterResult,
        loads: Option<&LoadReporter>,
    ) {
        if self.config.as_ref() == Some(config) {
            return;
        }
        self.config = Some(config.clone());
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
            self.leaves.push(Leaf::new(now, leaf, loads, same));
        }
        self.levels = Vec::with_capacity(continued.len());
        for (index, leaf) in self.leaves.iter().enumerate() {
            let first = self.levels.len();
            self.levels.extend(leaf.levels(index, first, self.context));
        }
        self.entries = None;
        // gRFC A56: a priority that continues an old one may have other endpoints now. Their state is
        // reported before a priority is chosen, otherwise the state of removed endpoints would decide
        // (C-243).
        self.priorities.renumber(&continued);
        let tried = std::mem::take(&mut self.connected);
        for (priority, old) in continued.iter().enumerate() {
            if old.is_some_and(|old| old < tried) {
                self.connect(now, priority);
                self.report(now, priority);
            }
        }
        self.changed = true;
        self.is_outdated = true;
    }

    /// Handles a changed connectivity of an endpoint.
    pub(super) fn refresh(&mut self, now: Instant, address: SocketAddr) {
        // The member may be removed before its change is read.
        for (place, state) in self.members.refresh(now, address) {
            self.set_state(place, state);
        }
    }

    /// Connects the idle endpoint that an RPC waits for.
    pub(super) fn connect_wanted(&mut self, now: Instant, member: usize) {
        if let Some((place, state)) = self.members.connect(now, member) {
            self.set_state(place, state);
        }
    }

    fn set_state(&mut self, place: ChildPlace, state: Connectivity) {
        if let Some(level) = self.levels.get_mut(place.priority) {
            level.set_state(place.child, state);
        }
        self.changed = true;
    }

    /// Ends the cluster, which the configuration no longer contains.
    pub(super) fn close(&self) {
        self.handle
            .set(Picker::without_endpoints(PickerState::Removed));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let levels = self.levels.iter().filter_map(PriorityLevel::poll_timeout);
        let detectors = self.leaves.iter();
        let detectors = detectors.filter_map(|leaf| leaf.detector.poll_timeout());
        let others = self.failover.into_iter().chain(self.members.poll_timeout());
        levels.chain(detectors).chain(others).min()
    }

    /// Chooses the priority and puts a new picker into use if necessary. Returns false if nothing changed since the
    /// last call.
    pub(super) fn update_picker(&mut self, now: Instant) -> bool {
        let timed_out = self.poll_timeout().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.changed) && !timed_out {
            return false;
        }
        for (place, state) in self.members.handle_timeout(now) {
            self.set_state(place, state);
        }
        self.detect_outliers(now);
        for priority in 0..self.connected {
            self.is_outdated |= self.levels[priority].update(now, &mut self.members);
            self.report(now, priority);
        }
        self.changed = false;
        let active = self.active;
        self.choose_priority(now);
        self.failover = self.priorities.poll_timeout(now);
        // A ready endpoint that gets or loses a connection changes no picker; RPCs that wait for it must still decide again.
        if std::mem::take(&mut self.is_outdated) || active != self.active {
            let endpoints = self.endpoint_entries(now);
            let leaf = self.active_leaf();
            self.handle.set(Picker {
                assignment: leaf.and_then(|leaf| leaf.config.assignment.clone()),
                drops: leaf.map(|leaf| Arc::clone(&leaf.drops)).unwrap_or_default(),
                limit: leaf.map(|leaf| Arc::clone(&leaf.limit)),
                state: self.picker_state(),
                priority: self.active.map(|active| active.priority),
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
            if !leaf.detector.handle_timeout(now, random) {
                continue;
            }
            let levels = self.levels.iter_mut().filter(|level| level.leaf() == index);
            for level in levels {
                level.set_ejections(|address| leaf.detector.ejection(address).is_some());
            }
            // The status shows ejections.
            self.entries = None;
            self.is_outdated = true;
        }
    }

    fn choose_priority(&mut self, now: Instant) {
        let before = self.connected;
        loop {
            self.active = self.priorities.choose(now);
            let tried = self.priorities.tried();
            // gRFC A56: a priority is created only when it is needed (C-240). One that is tried for the
            // first time may be connected already, by another channel: choose again with its state.
            for priority in self.connected..tried {
                self.connect(now, priority);
                self.report(now, priority);
            }
            let is_final = tried <= self.connected;
            self.connected = tried;
            if is_final {
                break;
            }
        }
        // gRFC A56: lower priorities than the active one are deactivated (C-242).
        for level in self.levels.iter_mut().skip(self.connected) {
            level.disconnect();
        }
        if self.connected != before || self.entries.is_none() {
            let levels = self.levels.iter();
            let wanted: HashSet<_> = levels.flat_map(PriorityLevel::members).collect();
            self.members.retain(&wanted);
            self.entries = None;
            self.is_outdated = true;
        }
    }

    /// Makes the children of a priority members, which connects them if the policy does so.
    fn connect(&mut self, now: Instant, priority: usize) {
        let level = &mut self.levels[priority];
        let leaf = &self.leaves[level.leaf()];
        level.connect(now, priority, &mut self.members);
        // gRFC A50: an endpoint that continues is still ejected.
        level.set_ejections(|address| leaf.detector.ejection(address).is_some());
        level.update(now, &mut self.members);
        self.entries = None;
    }

    /// Gives the state of a priority to the priority policy.
    fn report(&mut self, now: Instant, priority: usize) {
        if let Some(state) = self.levels[priority].state() {
            self.priorities.handle_state(now, priority, state);
        }
    }

    /// Returns the size of the hash ring of the active priority.
    fn ring_size(&self) -> Option<usize> {
        self.levels.get(self.active?.priority)?.policy().ring_size()
    }

    fn picker_state(&self) -> PickerState {
        let failed = |error: &str| PickerState::Failed(self.failure(error));
        match (&self.config, self.active) {
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
            wanted: self.wanted.clone(),
        })
    }

    /// Returns the status of RPCs that fail with this error.
    fn failure(&self, error: &str) -> Status {
        let text = format!("cluster {}: {error}", self.handle.name);
        status::of_control_plane(Code::Unavailable, text)
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
        let active = self
            .active
            .and_then(|active| self.levels.get(active.priority));
        self.leaves.get(active.map_or(0, PriorityLevel::leaf))
    }

    fn endpoint_entries(&mut self, now: Instant) -> Arc<[EndpointEntry]> {
        let (levels, leaves) = (&self.levels, &self.leaves);
        let of_level = |level: &PriorityLevel| {
            let detector = &leaves[level.leaf()].detector;
            level.entries(|address| ejected(now, detector.ejection(address)?))
        };
        let entries = self
            .entries
            .get_or_insert_with(|| levels.iter().flat_map(of_level).collect());
        Arc::clone(entries)
    }
}

fn ejected(now: Instant, ejection: Ejection) -> Option<Ejected> {
    let left = ejection.until.saturating_since(now);
    Some(Ejected {
        reason: ejection.reason,
        until: std::time::Instant::now().checked_add(left)?,
    })
}
