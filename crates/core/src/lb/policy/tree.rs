//! Policies as they are built from a configuration and the endpoints of a priority.

use std::ops::Range;

use super::config::PolicyConfig;
use super::picker::{PickerNode, PolicyPicker};
use super::round_robin::RoundRobinPicker;
use super::view::{PolicyChild, PolicyLocality};
use crate::lb::priorities::Connectivity;
use crate::lb::weighted::Weighted;

/// Policy of one priority of a cluster. It changes only by being built again; the caller keeps the connectivity of its
/// children.
#[derive(Debug)]
pub struct Policy {
    root: Node,
    children: Vec<PolicyChild>,
}

/// State of a policy after a change of its children.
#[derive(Debug)]
pub struct PolicyUpdate {
    /// Connectivity of the priority.
    pub state: Connectivity,
    /// Picker for RPCs until the next update.
    pub picker: PolicyPicker,
}

/// A policy over a range of the children, or over other policies.
#[derive(Debug)]
enum Node {
    RoundRobin(Range<usize>),
    Localities(Vec<(u32, Node)>),
}

impl Policy {
    /// Builds a policy over the endpoints of one priority.
    #[must_use]
    pub fn new(config: &PolicyConfig, localities: &[PolicyLocality]) -> Self {
        let mut builder = TreeBuilder::default();
        let root = builder.node(config, localities);
        Self {
            root,
            children: builder.children,
        }
    }

    /// Returns the children. All other methods refer to them by their index.
    #[must_use]
    pub fn children(&self) -> &[PolicyChild] {
        &self.children
    }

    /// Returns whether children connect as soon as they are idle, before any RPC needs them. Otherwise a child connects when
    /// a pick asks for it.
    #[must_use]
    pub fn is_eager(&self) -> bool {
        self.root.is_eager()
    }

    /// Makes the picker for these states of the children, one for each. `random` gives uniform random numbers.
    #[must_use]
    pub fn update(
        &self,
        states: &[Connectivity],
        random: &mut impl FnMut() -> u64,
    ) -> PolicyUpdate {
        let (state, picker) = self.root.update(states, random);
        PolicyUpdate {
            state,
            picker: PolicyPicker(picker),
        }
    }
}

/// Builder of a tree, which numbers the children.
#[derive(Debug, Default)]
struct TreeBuilder {
    children: Vec<PolicyChild>,
    /// Number of endpoints before the current locality.
    endpoints: usize,
}

impl TreeBuilder {
    fn node(&mut self, config: &PolicyConfig, localities: &[PolicyLocality]) -> Node {
        match config {
            PolicyConfig::RoundRobin => Node::RoundRobin(self.one_by_one(localities)),
            PolicyConfig::WrrLocality(inner) => {
                let mut node = |locality: &PolicyLocality| {
                    (
                        locality.weight,
                        self.node(inner, std::slice::from_ref(locality)),
                    )
                };
                Node::Localities(localities.iter().map(&mut node).collect())
            }
        }
    }

    /// Makes each endpoint a child.
    fn one_by_one(&mut self, localities: &[PolicyLocality]) -> Range<usize> {
        let start = self.children.len();
        let count = localities
            .iter()
            .map(|locality| locality.endpoints.len())
            .sum::<usize>();
        let endpoints = self.endpoints..self.endpoints + count;
        self.endpoints = endpoints.end;
        self.children.extend(endpoints.map(|index| PolicyChild {
            endpoints: vec![index],
        }));
        start..self.children.len()
    }
}

impl Node {
    fn is_eager(&self) -> bool {
        match self {
            Self::RoundRobin(_) => true,
            Self::Localities(localities) => localities.iter().all(|(_, node)| node.is_eager()),
        }
    }

    fn update(
        &self,
        states: &[Connectivity],
        random: &mut impl FnMut() -> u64,
    ) -> (Connectivity, PickerNode) {
        match self {
            Self::RoundRobin(range) => round_robin(range, states, random()),
            Self::Localities(localities) => {
                let updates = localities.iter().map(|(weight, node)| {
                    let (state, picker) = node.update(states, random);
                    (*weight, state, picker)
                });
                weighted(updates.collect())
            }
        }
    }
}

fn round_robin(
    range: &Range<usize>,
    states: &[Connectivity],
    random: u64,
) -> (Connectivity, PickerNode) {
    let own = states.get(range.clone()).unwrap_or_default();
    let state = Connectivity::of_round_robin(own.iter().copied());
    let is_ready = |(_, state): &(u32, &Connectivity)| **state == Connectivity::Ready;
    let ready = (range.start as u32..).zip(own).filter(is_ready);
    let picker = RoundRobinPicker::new(ready.map(|(child, _)| child).collect(), random);
    let picker = match (picker, state) {
        (Some(picker), _) => PickerNode::RoundRobin(picker),
        (None, Connectivity::TransientFailure) => PickerNode::Fail,
        (None, _) => PickerNode::Queue,
    };
    (state, picker)
}

/// Makes the picker over localities, each with its weight, state and picker.
fn weighted(localities: Vec<(u32, Connectivity, PickerNode)>) -> (Connectivity, PickerNode) {
    let states = localities.iter().map(|(_, state, _)| *state);
    let state = Connectivity::of_children(states);
    if state == Connectivity::Connecting {
        return (state, PickerNode::Queue);
    }
    // gRFC A27: the weights count among the ready localities only, so a locality without a ready endpoint gets no traffic
    // (C-244). Without a ready one, the RPCs are for the localities whose pickers connect or fail them.
    let of_state = localities.into_iter().filter(|(_, of, _)| *of == state);
    let pickers = Weighted::new(of_state.map(|(weight, _, picker)| (weight, picker)));
    (
        state,
        pickers.map_or(PickerNode::Fail, PickerNode::Localities),
    )
}
