//! One cluster: keeps its endpoints connected, follows its priorities, makes its pickers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::load::{ClusterLoad, LoadReporter, LocalityLoad};
use oxds_core::ads::WatchError;
use oxds_core::lb::{ActivePriority, Connectivity, Priorities, Weighted};
use oxds_core::resolve::ClusterConfig;
use oxds_core::resource::{Assignment, Locality as LocalityConfig};
use oxds_core::time::Instant;
use tonic::Code;

use super::members::{MemberState, Members};
use crate::picker::{Cluster, Drops, Endpoint, Locality, Picked, Picker, PickerState};
use crate::snapshot::Known;
use crate::status;

/// What a configuration says of a cluster.
type Config = Result<Arc<ClusterConfig>, WatchError>;

/// After [`configure`](Self::configure) or [`refresh`](Self::refresh), call
/// [`settle`](Self::settle), and again when [`poll_timeout`](Self::poll_timeout) is over.
pub(super) struct ClusterDriver {
    cluster: Arc<Cluster>,
    config: Option<Config>,
    /// What is reported of it, if it says so.
    load: Option<ClusterLoad>,
    drops: Drops,
    /// The assignment's localities by priority, in its order.
    places: Vec<Vec<Place>>,
    members: Members,
    priorities: Priorities,
    active: Option<ActivePriority>,
    /// When a priority has had its time to connect.
    failover: Option<Instant>,
    /// Priorities whose endpoints are members and whose state is told to `priorities`.
    connected: usize,
    /// Something happened since the last `settle`.
    unsettled: bool,
}

/// A locality, with what its endpoints are called on the request path.
struct Place {
    weight: u32,
    load: Option<LocalityLoad>,
    endpoints: Vec<Arc<Picked>>,
}

impl ClusterDriver {
    pub(super) fn new(name: Arc<str>, members: Members) -> Self {
        Self {
            cluster: Arc::new(Cluster::new(name)),
            config: None,
            load: None,
            drops: Drops::default(),
            places: Vec::new(),
            members,
            priorities: Priorities::new(),
            active: None,
            failover: None,
            connected: 0,
            unsettled: true,
        }
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Takes over the cluster's part of a new configuration.
    pub(super) fn configure(
        &mut self,
        now: Instant,
        config: &Config,
        loads: Option<&LoadReporter>,
    ) {
        if self.config.as_ref() == Some(config) {
            return;
        }
        let before = self.assignment();
        self.config = Some(config.clone());
        let after = self.assignment();
        // Before the old one is let go: the stream of a cluster that stays does not end.
        self.load = match config {
            Ok(config) => loads.and_then(|loads| loads.of(&config.cluster)),
            Err(_) => None,
        };
        self.drops = self.drops_of(&after);
        let continues = continues(localities(&before), localities(&after));
        self.places = self.places_of(localities(&after));
        // A priority that goes on may have other endpoints now: how they stand is told before the
        // choice, else it would be made by the state of those that left (C-243).
        self.priorities.renumber(&continues);
        let tried = std::mem::take(&mut self.connected);
        for (priority, old) in continues.iter().enumerate() {
            if old.is_some_and(|old| old < tried) {
                self.connect(priority);
                self.report(now, priority);
            }
        }
        self.unsettled = true;
    }

    /// An endpoint's connectivity changed.
    pub(super) fn refresh(&mut self, address: SocketAddr) {
        self.members.refresh(address);
        self.unsettled = true;
    }

    /// The configuration has dropped the cluster.
    pub(super) fn close(&self) {
        self.cluster
            .set(Picker::without_endpoints(PickerState::Gone));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.failover
    }

    /// Chooses the priority and puts a picker into use. False if nothing happened meanwhile.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let timed_out = self.failover.is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.unsettled) && !timed_out {
            return false;
        }
        for priority in 0..self.connected {
            self.report(now, priority);
        }
        self.choose(now);
        self.failover = self.priorities.poll_timeout(now);
        self.cluster.set(Picker {
            assignment: self.assignment(),
            drops: Arc::clone(&self.drops),
            state: self.state(),
            priority: self.active.map(|active| active.priority),
            known: self.known(),
        });
        true
    }

    fn choose(&mut self, now: Instant) {
        loop {
            self.active = self.priorities.choose(now);
            let tried = self.priorities.tried();
            // A priority tried for the first time may be connected already, by another channel.
            for priority in self.connected..tried {
                self.connect(priority);
                self.report(now, priority);
            }
            let settled = tried <= self.connected;
            self.connected = tried;
            if settled {
                break;
            }
        }
        let wanted: HashSet<_> = addresses(&self.places[..self.connected]).collect();
        self.members.retain(|address| wanted.contains(&address));
    }

    fn connect(&mut self, priority: usize) {
        for address in addresses(&self.places[priority..=priority]) {
            self.members.add(address);
        }
    }

    fn report(&mut self, now: Instant, priority: usize) {
        let addresses = addresses(&self.places[priority..=priority]);
        let members = addresses.filter_map(|address| self.members.get(address));
        let states = members.map(|member| member.state.connectivity());
        let state = Connectivity::of_round_robin(states);
        self.priorities.handle_state(now, priority, state);
    }

    fn state(&self) -> PickerState {
        let error = match (&self.config, self.active) {
            (Some(Err(error)), _) => error.to_string(),
            (_, None) => self.explain("it has no usable endpoints"),
            (_, Some(active)) => match active.state {
                Connectivity::Ready => {
                    return self
                        .ready(active.priority)
                        .map_or(PickerState::Connecting, PickerState::Ready);
                }
                Connectivity::Idle | Connectivity::Connecting => return PickerState::Connecting,
                Connectivity::TransientFailure => self.explain(&self.failure(active.priority)),
            },
        };
        let text = format!("cluster {}: {error}", self.cluster.name);
        PickerState::Failed(status::of_control_plane(Code::Unavailable, text))
    }

    /// The localities that have ready endpoints, with their own weights among them (C-244).
    fn ready(&self, priority: usize) -> Option<Weighted<Locality>> {
        let localities = self.places[priority].iter().filter_map(|place| {
            let ready = place.endpoints.iter().filter_map(|picked| {
                let member = self.members.get(picked.address)?;
                let MemberState::Ready(connections) = &member.state else {
                    return None;
                };
                Some(Endpoint {
                    picked: Arc::clone(picked),
                    subchannel: Arc::clone(member.subchannel()),
                    connections: connections.clone(),
                })
            });
            let locality = Locality::new(ready.collect(), place.load.clone())?;
            Some((place.weight, locality))
        });
        Weighted::new(localities)
    }

    /// Why a priority has failed: an endpoint's error stands for all.
    fn failure(&self, priority: usize) -> String {
        let mut errors = addresses(&self.places[priority..=priority]).filter_map(|address| {
            match &self.members.get(address)?.state {
                MemberState::Failed(error) => Some(format!("{address}: {error}")),
                MemberState::Connecting | MemberState::Ready(_) => None,
            }
        });
        let last = errors.next_back();
        last.map_or_else(
            || "it has no usable endpoints".to_owned(),
            |last| format!("no endpoint can be reached, the last one {last}"),
        )
    }

    /// Adds what is known to be wrong with the assignment (C-220).
    fn explain(&self, failure: &str) -> String {
        let note = self
            .config
            .as_ref()
            .and_then(|config| config.as_ref().ok()?.note.as_ref());
        note.map_or_else(|| failure.to_owned(), |note| format!("{failure}; {note}"))
    }

    fn assignment(&self) -> Option<Arc<Assignment>> {
        self.config.as_ref()?.as_ref().ok()?.assignment.clone()
    }

    fn drops_of(&self, assignment: &Option<Arc<Assignment>>) -> Drops {
        let (Some(load), Some(assignment)) = (&self.load, assignment) else {
            return Drops::default();
        };
        let drops = assignment.drops.iter();
        drops.map(|drop| load.category(&drop.category)).collect()
    }

    fn places_of(&self, priorities: &[Vec<LocalityConfig>]) -> Vec<Vec<Place>> {
        let cluster = &self.cluster.name;
        let place = |priority: usize, locality: &LocalityConfig| {
            let name: Arc<str> = locality.id.to_string().into();
            let picked = |address| Picked {
                cluster: Arc::clone(cluster),
                locality: Arc::clone(&name),
                priority,
                address,
            };
            let endpoints = locality.endpoints.iter();
            Place {
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
                    .map(|locality| place(priority, locality))
                    .collect()
            })
            .collect()
    }

    fn known(&self) -> Arc<[Known]> {
        let picked = self
            .places
            .iter()
            .flatten()
            .flat_map(|place| &place.endpoints);
        let known = picked.map(|picked| Known {
            picked: Arc::clone(picked),
            subchannel: self
                .members
                .get(picked.address)
                .map(|member| Arc::clone(member.subchannel())),
        });
        known.collect()
    }
}

fn localities(assignment: &Option<Arc<Assignment>>) -> &[Vec<LocalityConfig>] {
    assignment
        .as_ref()
        .map_or(&[], |assignment| &assignment.priorities)
}

fn addresses(places: &[Vec<Place>]) -> impl DoubleEndedIterator<Item = SocketAddr> {
    let endpoints = places.iter().flatten().flat_map(|place| &place.endpoints);
    endpoints.map(|picked| picked.address)
}

/// For each new priority the old one it continues: the first, in the order of its localities, that
/// has one of them and is not continued already (A56).
fn continues(old: &[Vec<LocalityConfig>], new: &[Vec<LocalityConfig>]) -> Vec<Option<usize>> {
    let mut taken = vec![false; old.len()];
    let mut continued = |level: &Vec<LocalityConfig>| {
        let holder = |locality: &LocalityConfig| {
            (0..old.len()).find(|&index| {
                !taken[index] && old[index].iter().any(|other| other.id == locality.id)
            })
        };
        let index = level.iter().find_map(holder)?;
        taken[index] = true;
        Some(index)
    };
    new.iter().map(&mut continued).collect()
}
