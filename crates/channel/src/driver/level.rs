//! One priority of a cluster: its policy, and the states of the policy's children.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::metrics::{
    BACKEND_SERVICE, LOCALITY, WRR_FALLBACK, WRR_NOT_YET_USABLE, WRR_STALE, WRR_WEIGHTS,
};
use oxds_core::lb::Connectivity;
use oxds_core::lb::policy::{
    ChildAddress, EndpointWeight, Policy, PolicyChild, PolicyEndpoint, PolicyInput, PolicyLocality,
    PolicyPicker, WeightReport, WeightState,
};
use oxds_core::resolve::LeafCluster;
use oxds_core::resource::Locality;
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use smallvec::SmallVec;

use super::list_diff::unchanged;
use super::members::{ChildPlace, Members, Scope};
use super::weights::WeightObserver;
use crate::attempt::AttemptObserver;
use crate::endpoint::{Addresses, Ejected, PickAddress, PickChild, PickChildren};
use crate::endpoint_table::LevelEndpoints;
use crate::epoch::Epoch;
use crate::metrics::{ChannelMetrics, locality_label};
use crate::security::ClusterSecurity;

/// Values that the priorities of a cluster share.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelContext {
    /// Random number of the cluster in this channel.
    pub(super) seed: u64,
    pub(super) epoch: Epoch,
}

/// Place of a priority in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelPlace {
    /// Number of its leaf.
    pub(super) leaf: usize,
    /// Number among the priorities of the leaf.
    pub(super) number: usize,
    /// Number among the priorities of all leaves.
    pub(super) priority: usize,
}

/// A priority of the assignment.
pub(super) struct PriorityLevel {
    place: LevelPlace,
    config: Arc<LeafCluster>,
    policy: Arc<Policy>,
    /// Endpoints of all its localities, in order.
    endpoints: Arc<[Addresses]>,
    /// The same priority before the update, until the children are members.
    before: Option<Box<Self>>,
    connected: Option<ConnectedLevel>,
    epoch: Epoch,
}

/// A priority whose children are members.
struct ConnectedLevel {
    /// Ids of the members.
    members: Vec<usize>,
    children: PickChildren,
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

/// Children that an update did not change.
struct UnchangedChildren<'a> {
    before: &'a ConnectedLevel,
    /// For each child after the update, its index before.
    indexes: Vec<Option<usize>>,
}

impl PriorityLevel {
    /// Makes a priority of a leaf, of the endpoints of its localities. `before` is the priority before the update, if
    /// it is at the same place of the same cluster resource.
    pub(super) fn new(
        place: LevelPlace,
        config: &Arc<LeafCluster>,
        endpoints: Vec<Addresses>,
        before: Option<Self>,
        context: LevelContext,
    ) -> Self {
        let policy = &config.cluster.policy;
        let localities = localities(config, place.number).iter();
        let localities: Vec<_> = localities.map(policy_locality).collect();
        Self {
            place,
            policy: Arc::new(Policy::new(policy, &localities, context.seed, &mut random)),
            config: Arc::clone(config),
            endpoints: endpoints.into(),
            before: before.map(Box::new),
            connected: None,
            epoch: context.epoch,
        }
    }

    /// Takes over a new configuration if this priority is the same in it. Returns whether it did.
    pub(super) fn keep(&mut self, place: LevelPlace, config: &Arc<LeafCluster>) -> bool {
        let is_same =
            self.is_at(place, config) && self.localities() == localities(config, place.number);
        if is_same {
            self.config = Arc::clone(config);
        }
        is_same
    }

    /// Returns whether it is at this place of the same cluster resource, so that equal endpoints have equal addresses.
    pub(super) fn is_at(&self, place: LevelPlace, config: &LeafCluster) -> bool {
        self.place == place && Arc::ptr_eq(&self.config.cluster, &config.cluster)
    }

    pub(super) fn leaf(&self) -> usize {
        self.place.leaf
    }

    /// Returns its number among the priorities of the cluster.
    pub(super) fn priority(&self) -> usize {
        self.place.priority
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Returns its localities.
    pub(super) fn localities(&self) -> &[Locality] {
        localities(&self.config, self.place.number)
    }

    /// Returns its endpoints over all localities, without the draining ones.
    pub(super) fn endpoints(&self) -> &[Addresses] {
        &self.endpoints
    }

    /// Returns its endpoints for the status. `ejected` are those of its leaf.
    pub(super) fn table(&self, ejected: &Arc<HashMap<SocketAddr, Ejected>>) -> LevelEndpoints {
        let connected = self.connected.as_ref();
        let children = connected.map(|connected| Arc::clone(&connected.children));
        LevelEndpoints {
            endpoints: Arc::clone(&self.endpoints),
            children: children.map(|children| (Arc::clone(&self.policy), children)),
            ejected: Arc::clone(ejected),
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Makes its children members, which connects them if the policy does that at once.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        priority: usize,
        security: &ClusterSecurity,
        members: &mut Members,
    ) {
        let demand = self.policy.demand();
        let count = self.policy.children().len();
        let mut ids = Vec::with_capacity(count);
        let mut states = Vec::with_capacity(count);
        let mut children = Vec::with_capacity(count);
        let mut weights = Vec::new();
        let before = self.before.take();
        let unchanged = before.as_ref().and_then(|before| self.unchanged(before));
        for (child, group) in self.policy.children().iter().enumerate() {
            let place = ChildPlace { priority, child };
            let same = unchanged
                .as_ref()
                .and_then(|unchanged| unchanged.get(child));
            if let Some((index, id, state, same)) = same {
                if index != child {
                    members.set_place(id, place);
                }
                ids.push(id);
                states.push(state);
                weights.extend(
                    unchanged
                        .as_ref()
                        .and_then(|unchanged| unchanged.weight(index)),
                );
                children.push(same);
                continue;
            }
            let addresses = self.addresses(group);
            // A child has at least one address.
            let scope = Scope::new(&self.config.cluster.name, security);
            let added = members.add(now, scope, group, &addresses, place, demand);
            let Some(member) = added else {
                continue;
            };
            ids.push(member.id);
            states.push(member.state);
            let (mut observer, mut reports) = (None, None);
            if let Some(config) = self.policy.weights() {
                let observed = Arc::clone(&member.weight);
                let receiver = WeightObserver::new(observed, Arc::clone(config), self.epoch);
                // gRFC A58: weights come from reports out of band, or from those of RPCs, and never from both.
                match config.out_of_band {
                    Some(period) => reports = Some((period, Arc::new(receiver) as _)),
                    None => observer = Some(Arc::new(receiver) as Arc<dyn AttemptObserver>),
                }
                weights.push(member.weight);
            }
            members.watch_reports(member.id, reports);
            children.push(Arc::new(PickChild {
                member: member.id,
                cell: member.cell,
                addresses,
                observer,
            }));
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

    /// Returns the children that `before` has, too, with the same addresses of the same endpoints.
    fn unchanged<'a>(&self, before: &'a Self) -> Option<UnchangedChildren<'a>> {
        let is_same_endpoint = |old: usize, new: usize| {
            let (old, new) = (before.endpoints.get(old), self.endpoints.get(new));
            old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
        };
        let is_same_address = |(old, new): (&ChildAddress, &ChildAddress)| {
            old.address == new.address && is_same_endpoint(old.endpoint, new.endpoint)
        };
        let is_same = |old: &PolicyChild, new: &PolicyChild| {
            let all = old.addresses.iter().zip(&new.addresses);
            old.addresses.len() == new.addresses.len() && all.into_iter().all(is_same_address)
        };
        let key = |child: &PolicyChild| child.addresses.first().map(|first| first.address);
        let (old, new) = (before.policy.children(), self.policy.children());
        Some(UnchangedChildren {
            before: before.connected.as_ref()?,
            indexes: unchanged(old, new, is_same, (key, key)),
        })
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
            child.cell.clear_request();
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

    /// Returns whether outlier detection has ejected an endpoint of this priority.
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
            if let Some(metrics) = members.metrics()
                && !connected.weights.is_empty()
            {
                for report in self.policy.weight_reports(input) {
                    record_weights(metrics, &report, &connected.children);
                }
            }
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
    pub(super) fn picker(&self) -> Option<(Arc<PolicyPicker>, PickChildren)> {
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
}

impl UnchangedChildren<'_> {
    /// Returns a child by its index now: its index before, its member, its state and itself.
    fn get(&self, child: usize) -> Option<(usize, usize, Connectivity, Arc<PickChild>)> {
        let index = (*self.indexes.get(child)?)?;
        let member = *self.before.members.get(index)?;
        let state = *self.before.states.get(index)?;
        let child = self.before.children.get(index)?;
        Some((index, member, state, Arc::clone(child)))
    }

    /// Returns the weight of a child by its index before, if the policy reads weights.
    fn weight(&self, before: usize) -> Option<Arc<EndpointWeight>> {
        self.before.weights.get(before).map(Arc::clone)
    }
}

impl ConnectedLevel {
    /// Returns the states of the children as the policy sees them: an ejected one has failed (gRFC A50, C-252).
    fn effective_states(&self) -> Cow<'_, [Connectivity]> {
        if self.ejected.is_empty() {
            return Cow::Borrowed(&self.states);
        }
        let effective = |(state, ejected): (&Connectivity, &bool)| {
            if *ejected {
                Connectivity::TransientFailure
            } else {
                *state
            }
        };
        self.states
            .iter()
            .zip(&self.ejected)
            .map(effective)
            .collect()
    }
}

/// Records the weights of an update (gRFC A78).
fn record_weights(metrics: &ChannelMetrics, report: &WeightReport, children: &[Arc<PickChild>]) {
    let child = children.get(report.child);
    let picked = child.and_then(|child| Some(&child.addresses.first()?.picked));
    let locality = picked.filter(|_| report.is_of_locality);
    let locality = locality_label(locality.map_or("", |picked| &picked.locality));
    let label = |key| match key {
        LOCALITY => locality.as_str(),
        BACKEND_SERVICE => picked.map_or("", |picked| &*picked.cluster),
        _ => "",
    };
    let count = |state: fn(&WeightState) -> bool| {
        let matching = report.weights.iter().filter(|one| state(one));
        matching.count() as u64
    };
    let counts = [
        (&WRR_FALLBACK, u64::from(report.is_fallback())),
        (
            &WRR_NOT_YET_USABLE,
            count(|state| *state == WeightState::NotYetUsable),
        ),
        (&WRR_STALE, count(|state| *state == WeightState::Stale)),
    ];
    for (counter, by) in counts.into_iter().filter(|(_, by)| *by > 0) {
        metrics.add(counter, by, label);
    }
    let weights = report.weights.iter().map(|state| match state {
        WeightState::Usable(weight) => f64::from(*weight),
        WeightState::NotYetUsable | WeightState::Stale => 0.0,
    });
    metrics.record_all(&WRR_WEIGHTS, weights, label);
}

/// Returns the localities of a priority of a leaf.
pub(super) fn localities(config: &LeafCluster, number: usize) -> &[Locality] {
    let assignment = config.assignment.as_ref();
    let found = assignment.and_then(|assignment| assignment.priorities.get(number));
    found.map_or(&[], Vec::as_slice)
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
