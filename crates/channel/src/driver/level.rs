//! One priority of a cluster: its policy, and the states of the policy's children.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::Connectivity;
use oxds_core::lb::policy::{
    EndpointWeight, Policy, PolicyChild, PolicyEndpoint, PolicyInput, PolicyLocality, PolicyPicker,
};
use oxds_core::resource::{Cluster, Locality};
use oxds_core::time::Instant;
use smallvec::SmallVec;

use super::epoch::Epoch;
use super::members::{ChildPlace, Members};
use super::weights::WeightObserver;
use crate::endpoint::{Ejected, EndpointEntry, PickAddress, PickChild};
use crate::guard::AttemptObserver;
use crate::random::random;

/// Values that the priorities of a cluster share.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelContext {
    /// Random number of the cluster in this channel.
    pub(super) seed: u64,
    pub(super) epoch: Epoch,
}

/// A priority of the assignment.
pub(super) struct PriorityLevel {
    /// Number of its leaf in the cluster.
    leaf: usize,
    /// Name of the leaf.
    scope: Arc<str>,
    policy: Policy,
    /// Endpoints of all its localities, in order: each the addresses of the assignment.
    endpoints: Vec<SmallVec<[PickAddress; 1]>>,
    connected: Option<ConnectedLevel>,
    epoch: Epoch,
}

/// A priority whose children are members.
struct ConnectedLevel {
    /// Ids of the members.
    members: Vec<usize>,
    children: Arc<[PickChild]>,
    weights: Vec<Arc<EndpointWeight>>,
    states: Vec<Connectivity>,
    /// Whether each child is ejected by outlier detection; empty if none is.
    ejected: Vec<bool>,
    state: Connectivity,
    picker: Arc<PolicyPicker>,
    /// A state changed since the picker was made.
    is_outdated: bool,
    /// Time of the next update for the weights.
    next_update: Option<Instant>,
}

impl PriorityLevel {
    /// Makes a priority of a leaf, of its localities and their endpoints.
    pub(super) fn new(
        leaf: usize,
        cluster: &Cluster,
        localities: &[Locality],
        endpoints: Vec<SmallVec<[PickAddress; 1]>>,
        context: LevelContext,
    ) -> Self {
        let localities: Vec<_> = localities.iter().map(policy_locality).collect();
        Self {
            leaf,
            scope: Arc::clone(&cluster.name),
            policy: Policy::new(&cluster.policy, &localities, context.seed, &mut random),
            endpoints,
            connected: None,
            epoch: context.epoch,
        }
    }

    pub(super) fn leaf(&self) -> usize {
        self.leaf
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Makes its children members, which connects them if the policy does that at once.
    pub(super) fn connect(&mut self, now: Instant, priority: usize, members: &mut Members) {
        let demand = self.policy.demand();
        let count = self.policy.children().len();
        let mut ids = Vec::with_capacity(count);
        let mut states = Vec::with_capacity(count);
        let mut children = Vec::with_capacity(count);
        let mut weights = Vec::new();
        for (child, group) in self.policy.children().iter().enumerate() {
            let place = ChildPlace { priority, child };
            // A child has at least one address.
            let Some(member) = members.add(now, &self.scope, group, place, demand) else {
                continue;
            };
            ids.push(member.id);
            states.push(member.state);
            let mut observer = None;
            if let Some(config) = self.policy.weights() {
                let observed = Arc::clone(&member.weight);
                let reports = WeightObserver::new(observed, Arc::clone(config), self.epoch);
                observer = Some(Arc::new(reports) as Arc<dyn AttemptObserver>);
                weights.push(member.weight);
            }
            children.push(PickChild {
                member: member.id,
                cell: member.cell,
                addresses: self.addresses(group),
                observer,
            });
        }
        self.connected = Some(ConnectedLevel {
            members: ids,
            children: children.into(),
            weights,
            states,
            ejected: Vec::new(),
            state: Connectivity::Connecting,
            picker: Arc::default(),
            is_outdated: true,
            next_update: None,
        });
        self.update(now, members);
    }

    /// Returns the addresses of a child, in its order.
    fn addresses(&self, group: &PolicyChild) -> SmallVec<[PickAddress; 1]> {
        let addresses = group.addresses.iter().filter_map(|each| {
            let endpoint = self.endpoints.get(each.endpoint)?;
            let is_it = |own: &&PickAddress| own.picked.address == each.address;
            endpoint.iter().find(is_it).cloned()
        });
        addresses.collect()
    }

    /// Forgets its children. The caller removes the members.
    pub(super) fn disconnect(&mut self) {
        self.connected = None;
    }

    /// Sets the state of a child.
    pub(super) fn set_state(&mut self, child: usize, state: Connectivity) {
        let Some(connected) = &mut self.connected else {
            return;
        };
        let Some(known) = connected.states.get_mut(child) else {
            return;
        };
        if *known == state {
            return;
        }
        *known = state;
        connected.is_outdated = true;
        if state == Connectivity::Ready
            && let Some(weight) = connected.weights.get(child)
        {
            weight.handle_connected();
        }
        if state != Connectivity::Idle
            && let Some(child) = connected.children.get(child)
        {
            child.cell.clear_wanted();
        }
    }

    /// Sets which endpoints are ejected, by their first addresses. A child that has several endpoints is never ejected.
    pub(super) fn set_ejections(&mut self, is_ejected: impl Fn(SocketAddr) -> bool) {
        let Some(connected) = &mut self.connected else {
            return;
        };
        let is_out = |group: &PolicyChild| {
            let index = group.addresses.first().map(|each| each.endpoint);
            let is_one = group
                .addresses
                .iter()
                .all(|each| Some(each.endpoint) == index);
            let endpoint = index
                .filter(|_| is_one)
                .and_then(|index| self.endpoints.get(index));
            let first = endpoint.and_then(|endpoint| endpoint.first());
            first.is_some_and(|first| is_ejected(first.picked.address))
        };
        let mut ejected: Vec<_> = self.policy.children().iter().map(is_out).collect();
        if !ejected.contains(&true) {
            ejected.clear();
        }
        if connected.ejected != ejected {
            connected.ejected = ejected;
            connected.is_outdated = true;
        }
    }

    /// Returns whether an endpoint is ejected.
    pub(super) fn has_ejections(&self) -> bool {
        self.connected
            .as_ref()
            .is_some_and(|connected| !connected.ejected.is_empty())
    }

    /// Makes a new picker if a state changed, or if it is time for new weights. Returns whether it did.
    pub(super) fn update(&mut self, now: Instant, members: &mut Members) -> bool {
        let mut is_new = false;
        // A child that the policy connects changes its state.
        while let Some(connected) = &mut self.connected {
            let is_due = connected.next_update.is_some_and(|at| at <= now);
            if !std::mem::take(&mut connected.is_outdated) && !is_due {
                break;
            }
            is_new = true;
            let states = connected.effective_states();
            let input = PolicyInput {
                now,
                states: &states,
                weights: &connected.weights,
            };
            let update = self.policy.update(input, &mut random);
            connected.state = update.state;
            connected.picker = Arc::new(update.picker);
            connected.next_update = self.policy.update_period().map(|period| now + period);
            let ids = update.connect.iter();
            let ids = ids.filter_map(|child| connected.members.get(*child));
            let connecting: Vec<_> = ids.filter_map(|id| members.connect(now, *id)).collect();
            for (place, state) in connecting {
                self.set_state(place.child, state);
            }
        }
        is_new
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.connected.as_ref()?.next_update
    }

    /// Returns the connectivity of the priority, if its children are members.
    pub(super) fn state(&self) -> Option<Connectivity> {
        self.connected.as_ref().map(|connected| connected.state)
    }

    /// Returns the picker with its children, if they are members.
    pub(super) fn picker(&self) -> Option<(Arc<PolicyPicker>, Arc<[PickChild]>)> {
        let connected = self.connected.as_ref()?;
        Some((
            Arc::clone(&connected.picker),
            Arc::clone(&connected.children),
        ))
    }

    /// Returns the ids of the members that have failed.
    pub(super) fn failed(&self) -> impl DoubleEndedIterator<Item = usize> {
        let connected = self.connected.iter();
        let states =
            connected.flat_map(|connected| connected.states.iter().zip(&connected.members));
        let failed = states.filter(|(state, _)| **state == Connectivity::TransientFailure);
        failed.map(|(_, id)| *id)
    }

    /// Returns the ids of its members.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        let connected = self.connected.iter();
        connected.flat_map(|connected| connected.members.iter().copied())
    }

    /// Returns an entry for the status of each endpoint.
    pub(super) fn entries(
        &self,
        ejected: impl Fn(SocketAddr) -> Option<Ejected>,
    ) -> Vec<EndpointEntry> {
        let entry = |endpoint: &SmallVec<[PickAddress; 1]>| {
            let first = endpoint.first()?;
            Some(EndpointEntry {
                picked: Arc::clone(&first.picked),
                child: None,
                ejected: ejected(first.picked.address),
            })
        };
        // An endpoint has at least one address.
        let mut entries: Vec<_> = self.endpoints.iter().filter_map(entry).collect();
        let connected = self.connected.iter();
        let children = connected.flat_map(|connected| &*connected.children);
        for (group, child) in self.policy.children().iter().zip(children) {
            for (index, address) in (0..).zip(&group.addresses) {
                if let Some(entry) = entries.get_mut(address.endpoint) {
                    let new = || (Arc::clone(&child.cell), SmallVec::new());
                    entry.child.get_or_insert_with(new).1.push(index);
                }
            }
        }
        entries
    }
}

impl ConnectedLevel {
    /// Returns the states of the children as the policy sees them: an ejected one has failed (gRFC A50, C-252).
    fn effective_states(&self) -> Cow<'_, [Connectivity]> {
        if self.ejected.is_empty() {
            return Cow::Borrowed(&self.states);
        }
        let effective = |(state, ejected): (&Connectivity, &bool)| match ejected {
            true => Connectivity::TransientFailure,
            false => *state,
        };
        self.states
            .iter()
            .zip(&self.ejected)
            .map(effective)
            .collect()
    }
}

fn policy_locality(locality: &Locality) -> PolicyLocality {
    let endpoints = locality.endpoints.iter();
    PolicyLocality {
        weight: locality.weight,
        endpoints: endpoints
            .map(|endpoint| PolicyEndpoint {
                address: endpoint.address,
                additional_addresses: endpoint.additional_addresses.clone(),
                weight: endpoint.weight,
                hash_key: endpoint.hash_key.clone(),
            })
            .collect(),
    }
}
