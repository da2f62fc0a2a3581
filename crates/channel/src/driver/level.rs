//! One priority of a cluster: its policy, and the states of the policy's children.

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::Connectivity;
use oxds_core::lb::policy::{Policy, PolicyConfig, PolicyEndpoint, PolicyLocality, PolicyPicker};
use oxds_core::resource::Locality;

use super::members::{ChildPlace, Members};
use crate::endpoint::{ChildCell, EndpointEntry, PickChild, PriorityEndpoint};
use crate::random::random;

/// A priority of the assignment.
pub(super) struct PriorityLevel {
    policy: Policy,
    /// Endpoints of all its localities, in order.
    endpoints: Vec<PriorityEndpoint>,
    connected: Option<ConnectedLevel>,
}

/// A priority whose children are members.
struct ConnectedLevel {
    children: Arc<[PickChild]>,
    states: Vec<Connectivity>,
    state: Connectivity,
    picker: Arc<PolicyPicker>,
    /// A state changed since the picker was made.
    is_outdated: bool,
}

impl PriorityLevel {
    /// Makes a priority of its localities and their endpoints.
    pub(super) fn new(
        config: &PolicyConfig,
        localities: &[Locality],
        endpoints: Vec<PriorityEndpoint>,
    ) -> Self {
        let localities: Vec<_> = localities.iter().map(policy_locality).collect();
        Self {
            policy: Policy::new(config, &localities),
            endpoints,
            connected: None,
        }
    }

    /// Makes its children members, which connects them if the policy does that at once.
    pub(super) fn connect(&mut self, priority: usize, members: &mut Members) {
        let is_eager = self.policy.is_eager();
        let mut states = Vec::with_capacity(self.policy.children().len());
        let mut children = Vec::with_capacity(states.capacity());
        for (child, group) in self.policy.children().iter().enumerate() {
            let endpoints = group.endpoints.iter();
            let endpoints = endpoints.filter_map(|index| self.endpoints.get(*index).cloned());
            let child_endpoints: smallvec::SmallVec<[PriorityEndpoint; 1]> = endpoints.collect();
            let Some(first) = child_endpoints.first() else {
                continue;
            };
            let place = ChildPlace { priority, child };
            let (cell, state) = members.add(first.picked.address, place, is_eager);
            states.push(state);
            children.push(PickChild {
                cell,
                endpoints: child_endpoints,
            });
        }
        let update = self.policy.update(&states, &mut random);
        self.connected = Some(ConnectedLevel {
            children: children.into(),
            states,
            state: update.state,
            picker: Arc::new(update.picker),
            is_outdated: false,
        });
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
        if let Some(known) = connected.states.get_mut(child)
            && *known != state
        {
            *known = state;
            connected.is_outdated = true;
        }
    }

    /// Makes a new picker if a state changed. Returns whether it did.
    pub(super) fn update(&mut self) -> bool {
        let Some(connected) = &mut self.connected else {
            return false;
        };
        let is_outdated = std::mem::take(&mut connected.is_outdated);
        if is_outdated {
            let update = self.policy.update(&connected.states, &mut random);
            connected.state = update.state;
            connected.picker = Arc::new(update.picker);
        }
        is_outdated
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

    /// Returns the address of each child that has failed.
    pub(super) fn failed(&self) -> impl DoubleEndedIterator<Item = SocketAddr> {
        let connected = self.connected.iter();
        let children =
            connected.flat_map(|connected| connected.states.iter().zip(&*connected.children));
        let failed = children.filter(|(state, _)| **state == Connectivity::TransientFailure);
        failed.filter_map(|(_, child)| Some(child.endpoints.first()?.picked.address))
    }

    /// Returns the addresses of its members.
    pub(super) fn members(&self) -> impl Iterator<Item = SocketAddr> {
        let children = self
            .connected
            .iter()
            .flat_map(|connected| &*connected.children);
        children.filter_map(|child| Some(child.endpoints.first()?.picked.address))
    }

    /// Returns an entry for the status of each endpoint.
    pub(super) fn entries(&self) -> Vec<EndpointEntry> {
        let mut cells: Vec<Option<Arc<ChildCell>>> = vec![None; self.endpoints.len()];
        let children = self
            .connected
            .iter()
            .flat_map(|connected| &*connected.children);
        for (group, child) in self.policy.children().iter().zip(children) {
            for index in &group.endpoints {
                if let Some(cell) = cells.get_mut(*index) {
                    *cell = Some(Arc::clone(&child.cell));
                }
            }
        }
        let endpoints = self.endpoints.iter().zip(cells);
        let entries = endpoints.map(|(endpoint, cell)| EndpointEntry {
            picked: Arc::clone(&endpoint.picked),
            cell,
        });
        entries.collect()
    }
}

fn policy_locality(locality: &Locality) -> PolicyLocality {
    let endpoints = locality.endpoints.iter();
    PolicyLocality {
        weight: locality.weight,
        endpoints: endpoints
            .map(|endpoint| PolicyEndpoint {
                address: endpoint.address,
                weight: endpoint.weight,
            })
            .collect(),
    }
}
