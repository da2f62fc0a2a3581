//! Driver of one cluster: connects its endpoints, chooses the priority, builds its pickers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::load::{ClusterLoad, LoadReporter, LocalityLoad};
use oxds_core::ads::WatchError;
use oxds_core::lb::{ActivePriority, Connectivity, Priorities, Weighted};
use oxds_core::resolve::{ClusterConfig, LeafCluster};
use oxds_core::resource::{Assignment, Locality as LocalityConfig};
use oxds_core::time::Instant;
use tonic::Code;

use super::members::{MemberState, Members};
use crate::endpoint::{EndpointEntry, Picked};
use crate::picker::{ClusterHandle, DropCounts, Picker, PickerState, ReadyEndpoint, ReadyLocality};
use crate::status;

/// A cluster's part of a configuration, or the error of that cluster alone.
type ClusterResult = Result<Arc<ClusterConfig>, WatchError>;

/// Drives one cluster. After [`configure`](Self::configure) or [`refresh`](Self::refresh), call
/// [`update_picker`](Self::update_picker); call it again at [`poll_timeout`](Self::poll_timeout).
pub(super) struct ClusterDriver {
    handle: Arc<ClusterHandle>,
    config: Option<ClusterResult>,
    /// Load counters, if the cluster reports load.
    load: Option<ClusterLoad>,
    drops: DropCounts,
    /// The localities of the assignment by priority, in its order.
    priority_localities: Vec<Vec<PriorityLocality>>,
    members: Members,
    priorities: Priorities,
    active: Option<ActivePriority>,
    /// Instant at which the failover timer of a connecting priority expires (gRFC A56).
    failover: Option<Instant>,
    /// Number of priorities whose endpoints are members and whose state was given to `priorities`.
    connected: usize,
    /// The configuration or a member changed since the last `update_picker`.
    changed: bool,
}

/// A locality of a priority, with the [`Picked`] of each endpoint.
struct PriorityLocality {
    weight: u32,
    load: Option<LocalityLoad>,
    endpoints: Vec<Arc<Picked>>,
}

impl ClusterDriver {
    pub(super) fn new(name: Arc<str>, members: Members) -> Self {
        Self {
            handle: Arc::new(ClusterHandle::new(name)),
            config: None,
            load: None,
            drops: DropCounts::default(),
            priority_localities: Vec::new(),
            members,
            priorities: Priorities::new(),
            active: None,
            failover: None,
            connected: 0,
            changed: true,
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
        let continued = continued_priorities(localities(&before), localities(&after));
        self.priority_localities = self.localities_by_priority(localities(&after));
        // gRFC A56: a priority that continues an old one may have other endpoints now. Their state is
        // reported before a priority is chosen, otherwise the state of removed endpoints would decide
        // (C-243).
        self.priorities.renumber(&continued);
        let tried = std::mem::take(&mut self.connected);
        for (priority, old) in continued.iter().enumerate() {
            if old.is_some_and(|old| old < tried) {
                self.connect(priority);
                self.report(now, priority);
            }
        }
        self.changed = true;
    }

    /// Handles a changed connectivity of an endpoint.
    pub(super) fn refresh(&mut self, address: SocketAddr) {
        self.members.refresh(address);
        self.changed = true;
    }

    /// Ends the cluster, which the configuration no longer contains.
    pub(super) fn close(&self) {
        self.handle
            .set(Picker::without_endpoints(PickerState::Removed));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.failover
    }

    /// Chooses the priority and puts a new picker into use. Returns false if nothing changed since the
    /// last call.
    pub(super) fn update_picker(&mut self, now: Instant) -> bool {
        let timed_out = self.failover.is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.changed) && !timed_out {
            return false;
        }
        for priority in 0..self.connected {
            self.report(now, priority);
        }
        self.choose_priority(now);
        self.failover = self.priorities.poll_timeout(now);
        self.handle.set(Picker {
            assignment: self.assignment(),
            drops: Arc::clone(&self.drops),
            state: self.picker_state(),
            priority: self.active.map(|active| active.priority),
            endpoints: self.endpoint_entries(),
        });
        true
    }

    fn choose_priority(&mut self, now: Instant) {
        loop {
            self.active = self.priorities.choose(now);
            let tried = self.priorities.tried();
            // gRFC A56: a priority is created only when it is needed (C-240). One that is tried for the
            // first time may be connected already, by another channel: choose again with its state.
            for priority in self.connected..tried {
                self.connect(priority);
                self.report(now, priority);
            }
            let is_final = tried <= self.connected;
            self.connected = tried;
            if is_final {
                break;
            }
        }
        // gRFC A56: lower priorities than the active one are deactivated (C-242).
        let wanted: HashSet<_> = addresses(&self.priority_localities[..self.connected]).collect();
        self.members.retain(|address| wanted.contains(&address));
    }

    /// Makes the endpoints of a priority members, which connects them.
    fn connect(&mut self, priority: usize) {
        for address in addresses(&self.priority_localities[priority..=priority]) {
            self.members.add(address);
        }
    }

    /// Gives the state of a priority to the priority policy.
    fn report(&mut self, now: Instant, priority: usize) {
        let addresses = addresses(&self.priority_localities[priority..=priority]);
        let members = addresses.filter_map(|address| self.members.get(address));
        let states = members.map(|member| member.state.connectivity());
        let state = Connectivity::of_round_robin(states);
        self.priorities.handle_state(now, priority, state);
    }

    fn picker_state(&self) -> PickerState {
        let error = match (&self.config, self.active) {
            // gRFC A74: the error of one cluster fails only the RPCs that go to it (C-220).
            (Some(Err(error)), _) => error.to_string(),
            // gRFC A27: an assignment without endpoints is valid, and its cluster unreachable (C-216).
            (_, None) => self.with_note("no usable endpoints"),
            (_, Some(active)) => match active.state {
                Connectivity::Ready => {
                    return self
                        .ready_localities(active.priority)
                        .map_or(PickerState::Connecting, PickerState::Ready);
                }
                Connectivity::Idle | Connectivity::Connecting => return PickerState::Connecting,
                Connectivity::TransientFailure => {
                    self.with_note(&self.failure_text(active.priority))
                }
            },
        };
        let text = format!("cluster {}: {error}", self.handle.name);
        PickerState::Failed(status::of_control_plane(Code::Unavailable, text))
    }

    /// Returns the localities of a priority that have ready endpoints.
    fn ready_localities(&self, priority: usize) -> Option<Weighted<ReadyLocality>> {
        // gRFC A27: the weights count among the ready localities only, so a locality without a ready
        // endpoint gets no traffic (C-244).
        let localities = &self.priority_localities[priority];
        let ready = localities.iter().filter_map(|locality| {
            let endpoints = locality.endpoints.iter().filter_map(|picked| {
                let member = self.members.get(picked.address)?;
                let MemberState::Ready(connections) = &member.state else {
                    return None;
                };
                Some(ReadyEndpoint {
                    picked: Arc::clone(picked),
                    subchannel: Arc::clone(member.subchannel()),
                    connections: connections.clone(),
                })
            });
            let ready = ReadyLocality::new(endpoints.collect(), locality.load.clone())?;
            Some((locality.weight, ready))
        });
        Weighted::new(ready)
    }

    /// Returns the error text of a failed priority, with the error of its last endpoint.
    fn failure_text(&self, priority: usize) -> String {
        let addresses = addresses(&self.priority_localities[priority..=priority]);
        let mut errors = addresses.filter_map(|address| match &self.members.get(address)?.state {
            MemberState::Failed(error) => Some(format!("{address}: {error}")),
            MemberState::Connecting | MemberState::Ready(_) => None,
        });
        // gRFC A27, A61: the status of a failed pick carries the last connection error (C-247).
        let last = errors.next_back();
        last.map_or_else(
            || "no usable endpoints".to_owned(),
            |last| format!("all endpoints unreachable, last error {last}"),
        )
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

    fn localities_by_priority(
        &self,
        priorities: &[Vec<LocalityConfig>],
    ) -> Vec<Vec<PriorityLocality>> {
        let cluster = &self.handle.name;
        let with_endpoints = |priority: usize, locality: &LocalityConfig| {
            let name: Arc<str> = locality.id.to_string().into();
            let picked = |address| Picked {
                cluster: Arc::clone(cluster),
                locality: Arc::clone(&name),
                priority,
                address,
            };
            let endpoints = locality.endpoints.iter();
            PriorityLocality {
                weight: locality.weight,
                load: self.load.as_ref().map(|load| load.locality(&locality.id)),
                endpoints: endpoints
                    .map(|endpoint| Arc::new(picked(endpoint.address)))
                    .collect(),
            }
        };
        let levels = priorities.iter().enumerate();
        levels
            .map(|(priority, level)| {
                level
                    .iter()
                    .map(|locality| with_endpoints(priority, locality))
                    .collect()
            })
            .collect()
    }

    fn endpoint_entries(&self) -> Arc<[EndpointEntry]> {
        let endpoints = self
            .priority_localities
            .iter()
            .flatten()
            .flat_map(|locality| &locality.endpoints);
        let entries = endpoints.map(|picked| EndpointEntry {
            picked: Arc::clone(picked),
            subchannel: self
                .members
                .get(picked.address)
                .map(|member| Arc::clone(member.subchannel())),
        });
        entries.collect()
    }
}

fn localities(assignment: &Option<Arc<Assignment>>) -> &[Vec<LocalityConfig>] {
    assignment
        .as_ref()
        .map_or(&[], |assignment| &assignment.priorities)
}

fn addresses(localities: &[Vec<PriorityLocality>]) -> impl DoubleEndedIterator<Item = SocketAddr> {
    let localities = localities.iter().flatten();
    let endpoints = localities.flat_map(|locality| &locality.endpoints);
    endpoints.map(|picked| picked.address)
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
