//! Driver of one cluster: connects its endpoints, chooses the priority, builds its pickers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::load::{ClusterLoad, LoadReporter};
use oxds_core::ads::WatchError;
use oxds_core::lb::policy::PolicyConfig;
use oxds_core::lb::{ActivePriority, Connectivity, OutlierDetector, Priorities};
use oxds_core::resolve::{ClusterConfig, LeafCluster};
use oxds_core::resource::{Assignment, Endpoint, Locality as LocalityConfig};
use oxds_core::time::Instant;
use smallvec::SmallVec;
use tonic::{Code, Status};

use super::epoch::Epoch;
use super::level::{LevelContext, PriorityLevel};
use super::members::{ChildPlace, Members};
use crate::endpoint::{Ejected, EndpointEntry, PickAddress, Picked};
use crate::limits::RequestLimit;
use crate::picker::{ActivePicker, ClusterHandle, DropCounts, Picker, PickerState, WantedSender};
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
    /// Load counters, if the cluster reports load.
    load: Option<ClusterLoad>,
    drops: DropCounts,
    /// Circuit breaker; `None` without a cluster.
    limit: Option<Arc<RequestLimit>>,
    /// The priorities of the assignment, the highest first.
    levels: Vec<PriorityLevel>,
    outliers: OutlierDetector,
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
            load: None,
            drops: DropCounts::default(),
            limit: None,
            levels: Vec::new(),
            outliers: OutlierDetector::new(),
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
        let before = self.assignment();
        self.config = Some(config.clone());
        let after = self.assignment();
        // The new load handle is made before the old one is dropped, so that the LRS stream of a
        // cluster that stays does not end.
        self.load = match config {
            Ok(config) => loads.and_then(|loads| loads.of(&config.cluster)),
            Err(_) => None,
        };
        self.drops = self.drop_counts(&after);
        let leaf = self.leaf().map(|leaf| Arc::clone(&leaf.cluster));
        self.limit = leaf.map(|cluster| Arc::new(RequestLimit::of(&cluster, self.load.clone())));
        self.configure_outliers(now, &after);
        let continued = continued_priorities(localities(&before), localities(&after));
        self.levels = self.new_levels(localities(&after));
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
        if let Some((place, state)) = self.members.refresh(now, address) {
            self.set_state(place, state);
        }
    }

    /// Connects the idle endpoint that an RPC waits for.
    pub(super) fn connect_wanted(&mut self, now: Instant, address: SocketAddr) {
        if let Some((place, state)) = self.members.connect(now, address) {
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
        let others = [
            self.failover,
            self.members.poll_timeout(),
            self.outliers.poll_timeout(),
        ];
        levels.chain(others.into_iter().flatten()).min()
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
        if self.outliers.handle_timeout(now, random) {
            self.apply_ejections();
        }
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
            self.handle.set(Picker {
                assignment: self.assignment(),
                drops: Arc::clone(&self.drops),
                limit: self.limit.clone(),
                state: self.picker_state(),
                priority: self.active.map(|active| active.priority),
                policy: self.leaf().map(|leaf| leaf.cluster.policy.clone()),
                ring_size: self.ring_size(),
                endpoints,
            });
        }
        true
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
        level.connect(now, priority, &mut self.members);
        // gRFC A50: an endpoint that continues is still ejected.
        let outliers = &self.outliers;
        level.set_ejections(|address| outliers.ejection(address).is_some());
        level.update(now, &mut self.members);
        self.entries = None;
    }

    /// Configures outlier detection for the endpoints of an assignment.
    fn configure_outliers(&mut self, now: Instant, assignment: &Option<Arc<Assignment>>) {
        let endpoints = assignment
            .iter()
            .flat_map(|assignment| assignment.endpoints());
        let addresses = endpoints.map(|endpoint| endpoint.address);
        self.outliers.set_endpoints(addresses);
        let leaf = self.leaf().map(|leaf| Arc::clone(&leaf.cluster));
        let config = leaf.as_ref().and_then(|cluster| cluster.outlier.as_ref());
        self.outliers.configure(now, config);
    }

    /// Shows the endpoints that were ejected, or have returned, to their policies.
    fn apply_ejections(&mut self) {
        let outliers = &self.outliers;
        for level in &mut self.levels {
            level.set_ejections(|address| outliers.ejection(address).is_some());
        }
        self.entries = None;
        self.is_outdated = true;
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
        let note = self.leaf().and_then(|leaf| leaf.note.as_ref());
        note.map_or_else(|| failure.to_owned(), |note| format!("{failure}; {note}"))
    }

    fn assignment(&self) -> Option<Arc<Assignment>> {
        self.leaf()?.assignment.clone()
    }

    /// Returns the cluster with its endpoints.
    fn leaf(&self) -> Option<&LeafCluster> {
        let config = self.config.as_ref()?.as_ref().ok()?;
        config.leaves.first().map(AsRef::as_ref)
    }

    fn drop_counts(&self, assignment: &Option<Arc<Assignment>>) -> DropCounts {
        let (Some(load), Some(assignment)) = (&self.load, assignment) else {
            return DropCounts::default();
        };
        let drops = assignment.drops.iter();
        drops.map(|drop| load.category(&drop.category)).collect()
    }

    fn new_levels(&self, priorities: &[Vec<LocalityConfig>]) -> Vec<PriorityLevel> {
        let default = PolicyConfig::round_robin_by_locality();
        let policy = self.leaf().map_or(&default, |leaf| &leaf.cluster.policy);
        let levels = priorities.iter().enumerate();
        let level = |(priority, localities): (usize, &Vec<LocalityConfig>)| {
            let endpoints = localities.iter();
            let endpoints = endpoints.flat_map(|locality| self.endpoints(priority, locality));
            PriorityLevel::new(policy, localities, endpoints.collect(), self.context)
        };
        levels.map(level).collect()
    }

    /// Returns the endpoints of a locality, each with its addresses.
    fn endpoints(
        &self,
        priority: usize,
        locality: &LocalityConfig,
    ) -> Vec<SmallVec<[PickAddress; 1]>> {
        let cluster = &self.handle.name;
        let name: Arc<str> = locality.id.to_string().into();
        let load = self.load.as_ref().map(|load| load.locality(&locality.id));
        let pick_address = |address: &SocketAddr, endpoint: &Endpoint| PickAddress {
            picked: Arc::new(Picked {
                cluster: Arc::clone(cluster),
                locality: Arc::clone(&name),
                priority,
                address: *address,
            }),
            load: load.clone(),
            results: self.outliers.results(endpoint.address),
        };
        let endpoints = locality.endpoints.iter();
        let addresses = |endpoint: &Endpoint| {
            let all = std::iter::once(&endpoint.address).chain(&endpoint.additional_addresses);
            all.map(|address| pick_address(address, endpoint)).collect()
        };
        endpoints.map(addresses).collect()
    }

    fn endpoint_entries(&mut self, now: Instant) -> Arc<[EndpointEntry]> {
        let (levels, outliers) = (&self.levels, &self.outliers);
        let ejected = |address| {
            let ejection = outliers.ejection(address)?;
            let left = ejection.until.saturating_since(now);
            Some(Ejected {
                reason: ejection.reason,
                until: std::time::Instant::now().checked_add(left)?,
            })
        };
        let entries = self.entries.get_or_insert_with(|| {
            let entries = levels.iter().flat_map(|level| level.entries(ejected));
            entries.collect()
        });
        Arc::clone(entries)
    }
}

fn localities(assignment: &Option<Arc<Assignment>>) -> &[Vec<LocalityConfig>] {
    assignment
        .as_ref()
        .map_or(&[], |assignment| &assignment.priorities)
}

/// Returns, for each new priority, the old priority that it continues, if any.
///
/// gRFC A56, child name reuse: it is the first old priority, in the order of the new one's localities,
/// that has one of them and is not continued already.
fn continued_priorities(
    old: &[Vec<LocalityConfig>],
    new: &[Vec<LocalityConfig>],
) -> Vec<Option<usize>> {
    let mut taken = vec![false; old.len()];
    let mut continued = |level: &Vec<LocalityConfig>| {
        let old_priority_of = |locality: &LocalityConfig| {
            (0..old.len()).find(|&index| {
                !taken[index] && old[index].iter().any(|other| other.id == locality.id)
            })
        };
        let index = level.iter().find_map(old_priority_of)?;
        taken[index] = true;
        Some(index)
    };
    new.iter().map(&mut continued).collect()
}
