//! Policies of the program (gRFC A52).

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::view::{Demand, Pick, PickCall, PolicyEndpoint};
use crate::lb::priorities::Connectivity;

/// Load-balancing policy of the program, with its configuration (gRFC A52).
///
/// It gets the endpoints of one priority, or inside `wrr_locality` those of one locality. It must not block: the
/// channel calls [`update`](Self::update) on its task after each change of an endpoint.
pub trait CustomPolicy: fmt::Debug + Send + Sync {
    /// Returns the name of the policy, for the status.
    fn name(&self) -> &str;

    /// Returns when idle endpoints connect.
    fn demand(&self) -> Demand {
        Demand::Always
    }

    /// Makes the picker for the states of the endpoints.
    fn update(&self, endpoints: &[CustomEndpoint<'_>]) -> CustomUpdate;
}

/// Endpoint of a policy of the program.
#[derive(Debug, Clone, Copy)]
pub struct CustomEndpoint<'a> {
    /// Address, weight and hash key.
    pub endpoint: &'a PolicyEndpoint,
    /// Weight of its locality; above zero.
    pub locality_weight: u32,
    /// Connectivity.
    pub state: Connectivity,
}

/// State of a policy of the program after a change.
#[derive(Debug)]
pub struct CustomUpdate {
    /// Connectivity of the whole: with `TransientFailure` the next priority is tried.
    pub state: Connectivity,
    /// Picker until the next update.
    pub picker: Box<dyn CustomPicker>,
}

/// Picker of a policy of the program. Called on the request path, by many RPCs at a time: it must not block.
pub trait CustomPicker: fmt::Debug + Send + Sync {
    /// Chooses an endpoint, by its index in the update. `random` gives uniform random numbers.
    fn pick(&self, call: &PickCall<'_>, random: &mut dyn FnMut() -> u64) -> Pick;

    /// Adds headers to an attempt that goes to the endpoint with this index, by name and value. By default none.
    ///
    /// They are added to those that the request has. Headers that HTTP does not allow are left out, and so are those
    /// that start with `grpc-`, which belong to the protocol. A retry is another pick, with headers of its own.
    fn add_headers(&self, call: &PickCall<'_>, index: usize, add: &mut dyn FnMut(&str, &str)) {
        let _ = (call, index, add);
    }
}

/// A policy of the program in a configuration. Clones are the same policy, and equal to each other only.
#[derive(Debug, Clone)]
pub struct SharedPolicy(Arc<dyn CustomPolicy>);

impl SharedPolicy {
    /// Shares a policy.
    #[must_use]
    pub fn new(policy: impl CustomPolicy + 'static) -> Self {
        Self(Arc::new(policy))
    }
}

impl Deref for SharedPolicy {
    type Target = dyn CustomPolicy;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for SharedPolicy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedPolicy {}

/// Children of a policy of the program, of which the first has the number `start`.
#[derive(Debug)]
pub(super) struct CustomNode {
    pub(super) policy: SharedPolicy,
    pub(super) start: usize,
    /// Endpoint of each child, with the weight of its locality.
    pub(super) endpoints: Vec<(u32, PolicyEndpoint)>,
}

/// Picker of a [`CustomNode`].
#[derive(Debug)]
pub(super) struct CustomNodePicker {
    picker: Box<dyn CustomPicker>,
    start: usize,
    count: usize,
}

impl CustomNode {
    pub(super) fn update(&self, states: &[Connectivity]) -> (Connectivity, CustomNodePicker) {
        let own = states.get(self.start..).unwrap_or_default();
        let endpoints = self.endpoints.iter().zip(own);
        let endpoints = endpoints.map(|((locality_weight, endpoint), state)| CustomEndpoint {
            endpoint,
            locality_weight: *locality_weight,
            state: *state,
        });
        let update = self.policy.update(&endpoints.collect::<Vec<_>>());
        let picker = CustomNodePicker {
            picker: update.picker,
            start: self.start,
            count: self.endpoints.len(),
        };
        (update.state, picker)
    }
}

impl CustomNodePicker {
    pub(super) fn pick(&self, call: &PickCall<'_>, random: &mut dyn FnMut() -> u64) -> Pick {
        // The children of other localities have other numbers.
        match self.picker.pick(call, random) {
            Pick::Child(index) if index < self.count => Pick::Child(self.start + index),
            Pick::Connect(index) if index < self.count => Pick::Connect(self.start + index),
            Pick::Child(_) | Pick::Connect(_) | Pick::Fail => Pick::Fail,
            Pick::Queue => Pick::Queue,
        }
    }

    /// Adds the headers for a child, if it is one of the node's.
    pub(super) fn add_headers(
        &self,
        call: &PickCall<'_>,
        child: usize,
        add: &mut dyn FnMut(&str, &str),
    ) {
        let index = child.checked_sub(self.start);
        if let Some(index) = index.filter(|&index| index < self.count) {
            self.picker.add_headers(call, index, add);
        }
    }
}
