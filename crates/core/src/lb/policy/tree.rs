//! Policies as they are built from a configuration and the endpoints of a priority.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh64::xxh64;

use super::config::PolicyConfig;
use super::custom::CustomNode;
use super::least_request::LeastRequestPicker;
use super::pick_first::{interleave, shuffle};
use super::picker::{PickerNode, PolicyPicker};
use super::ring_hash::{self, Ring, RingChild, RingHashPicker, RingKey};
use super::round_robin::RoundRobinPicker;
use super::stride::StridePicker;
use super::view::{
    ChildAddress, Demand, Pick, PolicyChild, PolicyEndpoint, PolicyInput, PolicyLocality,
};
use super::weight::{WeightReport, WeightState, WeightedRoundRobinConfig};
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
    /// Idle children that must connect, although no pick asks for them.
    pub connect: Vec<usize>,
}

/// A policy over a range of the children, or over other policies.
#[derive(Debug)]
enum Node {
    RoundRobin(Range<usize>),
    PickFirst(Option<usize>),
    RingHash(Range<usize>, Arc<Ring>),
    LeastRequest(Range<usize>, u32),
    WeightedRoundRobin(Range<usize>, Arc<WeightedRoundRobinConfig>),
    Custom(CustomNode),
    Localities(Vec<(u32, Node)>),
}

impl Policy {
    /// Builds a policy over the endpoints of one priority. `seed` is a random number that stays the same while the
    /// channel has the cluster; `random` gives uniform random numbers.
    #[must_use]
    pub fn new(
        config: &PolicyConfig,
        localities: &[PolicyLocality],
        seed: u64,
        random: &mut impl FnMut() -> u64,
    ) -> Self {
        let mut builder = TreeBuilder {
            seed,
            children: Vec::new(),
        };
        let root = builder.node(config, &groups(localities), random);
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

    /// Returns when idle children connect.
    #[must_use]
    pub fn demand(&self) -> Demand {
        self.root.demand()
    }

    /// Returns the time after which the policy must be updated, even if no child changes. Such a policy reads the
    /// weights of its children.
    #[must_use]
    pub fn update_period(&self) -> Option<Duration> {
        self.root
            .weights()
            .map(|config| config.weight_update_period)
    }

    /// Returns the configuration of the weights that children need, if the policy reads weights.
    #[must_use]
    pub fn weights(&self) -> Option<&Arc<WeightedRoundRobinConfig>> {
        self.root.weights()
    }

    /// Returns the weights that an update with this input reads, for each weighted round robin with a ready child.
    #[must_use]
    pub fn weight_reports(&self, input: PolicyInput<'_>) -> Vec<WeightReport> {
        let mut reports = Vec::new();
        self.root.report_weights(input, false, &mut reports);
        reports
    }

    /// Returns the number of entries of the hash ring, if the policy has one; the sum of them if it has several.
    #[must_use]
    pub fn ring_size(&self) -> Option<usize> {
        self.root.ring_size()
    }

    /// Makes the picker for these states of the children. `random` gives uniform random numbers.
    #[must_use]
    pub fn update(&self, input: PolicyInput<'_>, random: &mut impl FnMut() -> u64) -> PolicyUpdate {
        let mut connect = Vec::new();
        let (state, picker) = self.root.update(input, random, &mut connect);
        PolicyUpdate {
            state,
            picker: PolicyPicker(picker),
            connect,
        }
    }
}

/// Endpoints of a locality for one policy, each with its index in the priority.
#[derive(Debug, Clone)]
struct Group<'a> {
    weight: u32,
    endpoints: Vec<(usize, &'a PolicyEndpoint)>,
}

/// Builder of a tree, which numbers the children.
#[derive(Debug)]
struct TreeBuilder {
    seed: u64,
    children: Vec<PolicyChild>,
}

impl TreeBuilder {
    fn node(
        &mut self,
        config: &PolicyConfig,
        groups: &[Group<'_>],
        random: &mut impl FnMut() -> u64,
    ) -> Node {
        match config {
            PolicyConfig::RoundRobin => Node::RoundRobin(self.one_by_one(groups)),
            PolicyConfig::PickFirst { shuffle } => {
                Node::PickFirst(self.all_as_one(groups, shuffle.then_some(random)))
            }
            PolicyConfig::RingHash {
                min_ring_size,
                max_ring_size,
            } => {
                let range = self.one_by_one(groups);
                let children: Vec<_> = ring_children(range.start, groups).collect();
                let ring = Ring::new(&children, *min_ring_size, *max_ring_size);
                Node::RingHash(range, Arc::new(ring))
            }
            PolicyConfig::LeastRequest { choice_count } => {
                Node::LeastRequest(self.one_by_one(groups), *choice_count)
            }
            PolicyConfig::WeightedRoundRobin(config) => {
                Node::WeightedRoundRobin(self.one_by_one(groups), Arc::clone(config))
            }
            PolicyConfig::Custom(policy) => Node::Custom(CustomNode {
                policy: policy.clone(),
                start: self.one_by_one(groups).start,
                endpoints: endpoints_by_locality(groups),
            }),
            PolicyConfig::RandomSubsetting { subset_size, inner } => {
                self.node(inner, &subset(groups, *subset_size, self.seed), random)
            }
            PolicyConfig::WrrLocality(inner) => {
                let mut nodes = Vec::with_capacity(groups.len());
                for group in groups {
                    let node = self.node(inner, std::slice::from_ref(group), random);
                    nodes.push((group.weight, node));
                }
                Node::Localities(nodes)
            }
        }
    }

    /// Makes each endpoint a child.
    fn one_by_one(&mut self, groups: &[Group<'_>]) -> Range<usize> {
        let start = self.children.len();
        for (_, index, endpoint) in weighted_endpoints(groups) {
            let addresses = addresses(index, endpoint).collect();
            self.children.push(PolicyChild {
                addresses: interleave(addresses, |each| each.address),
            });
        }
        start..self.children.len()
    }

    /// Makes all endpoints one child. Their order is random if there are random numbers. Returns `None` without
    /// endpoints.
    fn all_as_one(
        &mut self,
        groups: &[Group<'_>],
        random: Option<&mut impl FnMut() -> u64>,
    ) -> Option<usize> {
        let mut endpoints: Vec<_> = weighted_endpoints(groups).collect();
        if let Some(random) = random {
            shuffle(&mut endpoints, |(weight, ..)| *weight, random);
        }
        // gRFC A61: the endpoints are shuffled, then their addresses form one list.
        let all = endpoints.iter();
        let all = all.flat_map(|(_, index, endpoint)| addresses(*index, endpoint));
        let addresses = interleave(all.collect(), |each| each.address);
        if addresses.is_empty() {
            return None;
        }
        self.children.push(PolicyChild { addresses });
        Some(self.children.len() - 1)
    }
}

/// Numbers the endpoints of a priority.
fn groups(localities: &[PolicyLocality]) -> Vec<Group<'_>> {
    let mut start = 0;
    let mut groups = Vec::with_capacity(localities.len());
    for locality in localities {
        groups.push(Group {
            weight: locality.weight,
            endpoints: (start..).zip(&locality.endpoints).collect(),
        });
        start += locality.endpoints.len();
    }
    groups
}

/// Returns the addresses of an endpoint, in the order of the assignment.
fn addresses(index: usize, endpoint: &PolicyEndpoint) -> impl Iterator<Item = ChildAddress> {
    let all = std::iter::once(&endpoint.address).chain(&endpoint.additional_addresses);
    all.map(move |address| ChildAddress {
        endpoint: index,
        address: *address,
    })
}

/// Returns the endpoints, each with its weight among all of its priority (gRFC A42) and its index.
fn weighted_endpoints<'a>(
    groups: &'a [Group<'a>],
) -> impl Iterator<Item = (u64, usize, &'a PolicyEndpoint)> {
    groups.iter().flat_map(|group| {
        let endpoints = group.endpoints.iter();
        endpoints.map(|(index, endpoint)| {
            let weight = u64::from(group.weight) * u64::from(endpoint.weight);
            (weight, *index, *endpoint)
        })
    })
}

/// Returns the endpoints, each with the weight of its locality.
fn endpoints_by_locality(groups: &[Group<'_>]) -> Vec<(u32, PolicyEndpoint)> {
    let of_group = |group: &Group<'_>| {
        let endpoints = group.endpoints.iter();
        let weighted =
            endpoints.map(|(_, endpoint)| (group.weight, PolicyEndpoint::clone(endpoint)));
        weighted.collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// Returns the children of a ring.
fn ring_children<'a>(start: usize, groups: &'a [Group<'a>]) -> impl Iterator<Item = RingChild<'a>> {
    let children = (start as u32..).zip(weighted_endpoints(groups));
    children.map(|(child, (weight, _, endpoint))| RingChild {
        child,
        // gRFC A76: the key of the metadata, or else the address.
        key: match &endpoint.hash_key {
            Some(key) => RingKey::Text(key),
            None => RingKey::Address(endpoint.address),
        },
        weight,
    })
}

/// Returns a random subset of the endpoints, by rendezvous hashing (gRFC A68): an endpoint that comes or goes changes
/// at most one other endpoint of the subset.
fn subset<'a>(groups: &[Group<'a>], size: u32, seed: u64) -> Vec<Group<'a>> {
    let mut text = String::new();
    let all = weighted_endpoints(groups).map(|(_, index, endpoint)| {
        text.clear();
        // Writing to a string does not fail.
        let _ = write!(text, "{}", endpoint.address);
        (xxh64(text.as_bytes(), seed), index)
    });
    let mut ranks: Vec<_> = all.collect();
    ranks.sort_unstable();
    ranks.truncate(size as usize);
    let chosen: BTreeSet<_> = ranks.into_iter().map(|(_, index)| index).collect();
    let mut groups = groups.to_vec();
    for group in &mut groups {
        group.endpoints.retain(|(index, _)| chosen.contains(index));
    }
    groups
}

impl Node {
    fn demand(&self) -> Demand {
        match self {
            Self::RoundRobin(_) | Self::LeastRequest(..) | Self::WeightedRoundRobin(..) => {
                Demand::Always
            }
            Self::PickFirst(_) => Demand::AtStart,
            Self::RingHash(..) => Demand::OnPick,
            Self::Custom(node) => node.policy.demand(),
            // All localities have the same policy.
            Self::Localities(localities) => localities
                .first()
                .map_or(Demand::Always, |(_, node)| node.demand()),
        }
    }

    fn weights(&self) -> Option<&Arc<WeightedRoundRobinConfig>> {
        match self {
            Self::WeightedRoundRobin(_, config) => Some(config),
            Self::Localities(localities) => localities.first()?.1.weights(),
            _ => None,
        }
    }

    fn report_weights(
        &self,
        input: PolicyInput<'_>,
        is_of_locality: bool,
        reports: &mut Vec<WeightReport>,
    ) {
        match self {
            Self::WeightedRoundRobin(range, config) => {
                let (_, ready) = ready_of(range, input);
                let state = |child: &u32| {
                    let weight = input.weights.get(*child as usize);
                    weight.map_or(WeightState::NotYetUsable, |weight| {
                        weight.state(input.now, config)
                    })
                };
                reports.extend(ready.first().map(|first| WeightReport {
                    child: *first as usize,
                    is_of_locality,
                    weights: ready.iter().map(state).collect(),
                }));
            }
            Self::Localities(localities) => {
                for (_, node) in localities {
                    node.report_weights(input, true, reports);
                }
            }
            _ => {}
        }
    }

    fn ring_size(&self) -> Option<usize> {
        match self {
            Self::RingHash(_, ring) => Some(ring.len()),
            Self::Localities(localities) => {
                let sizes = localities.iter().filter_map(|(_, node)| node.ring_size());
                sizes.reduce(|sum, size| sum + size)
            }
            _ => None,
        }
    }

    fn update(
        &self,
        input: PolicyInput<'_>,
        random: &mut impl FnMut() -> u64,
        connect: &mut Vec<usize>,
    ) -> (Connectivity, PickerNode) {
        match self {
            Self::RoundRobin(range) => {
                let (state, ready) = ready_of(range, input);
                let picker = RoundRobinPicker::new(ready, random());
                (state, picker_or(state, picker.map(PickerNode::RoundRobin)))
            }
            Self::LeastRequest(range, choice_count) => {
                let (state, ready) = ready_of(range, input);
                let picker = LeastRequestPicker::new(ready, *choice_count);
                let picker = picker.map(PickerNode::LeastRequest);
                (state, picker_or(state, picker))
            }
            Self::WeightedRoundRobin(range, config) => {
                let (state, ready) = ready_of(range, input);
                let picker = by_weight(ready, config, input, random());
                (state, picker_or(state, picker))
            }
            Self::PickFirst(child) => pick_first(*child, input),
            Self::Custom(node) => {
                let (state, picker) = node.update(input.states);
                (state, PickerNode::Custom(picker))
            }
            Self::RingHash(range, ring) => {
                let own = input.states.get(range.clone()).unwrap_or_default();
                let (state, wanted) = ring_hash::aggregate(own);
                connect.extend(wanted.map(|index| range.start + index));
                let picker = RingHashPicker::new(Arc::clone(ring), range.start as u32, own.into());
                (state, PickerNode::RingHash(picker))
            }
            Self::Localities(localities) => {
                let updates = localities.iter().map(|(weight, node)| {
                    let (state, picker) = node.update(input, random, connect);
                    (*weight, state, picker)
                });
                weighted(updates.collect())
            }
        }
    }
}

/// Returns the state of a policy that connects all its children, and the ready ones.
fn ready_of(range: &Range<usize>, input: PolicyInput<'_>) -> (Connectivity, Box<[u32]>) {
    let own = input.states.get(range.clone()).unwrap_or_default();
    let state = Connectivity::of_round_robin(own.iter().copied());
    let is_ready = |(_, state): &(u32, &Connectivity)| **state == Connectivity::Ready;
    let ready = (range.start as u32..).zip(own).filter(is_ready);
    (state, ready.map(|(child, _)| child).collect())
}

/// Returns the picker, or without ready children the one that waits or fails.
fn picker_or(state: Connectivity, picker: Option<PickerNode>) -> PickerNode {
    picker.unwrap_or(match state {
        Connectivity::TransientFailure => PickerNode::Fail,
        _ => PickerNode::Queue,
    })
}

/// Makes the picker over ready children by their weights, or in turn while too few weights are known (gRFC A58).
fn by_weight(
    ready: Box<[u32]>,
    config: &WeightedRoundRobinConfig,
    input: PolicyInput<'_>,
    random: u64,
) -> Option<PickerNode> {
    let weight_of = |child: u32| {
        let weight = input.weights.get(child as usize);
        weight.map_or(0.0, |weight| weight.get(input.now, config))
    };
    let weights: Vec<_> = ready
        .iter()
        .map(|child| (*child, weight_of(*child)))
        .collect();
    match StridePicker::new(&weights, random) {
        Some(picker) => Some(PickerNode::Stride(picker)),
        None => RoundRobinPicker::new(ready, random).map(PickerNode::RoundRobin),
    }
}

fn pick_first(child: Option<usize>, input: PolicyInput<'_>) -> (Connectivity, PickerNode) {
    let known = child.and_then(|child| Some((child, *input.states.get(child)?)));
    let Some((child, state)) = known else {
        return (Connectivity::TransientFailure, PickerNode::Fail);
    };
    let picker = match state {
        Connectivity::Ready => PickerNode::Always(Pick::Child(child)),
        // gRFC A62: an idle pick_first connects again when an RPC needs it.
        Connectivity::Idle => PickerNode::Always(Pick::Connect(child)),
        Connectivity::Connecting => PickerNode::Queue,
        Connectivity::TransientFailure => PickerNode::Fail,
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
    // gRFC A27: the weights count among the ready localities only, so a locality without a ready endpoint gets no
    // traffic (C-244). Without a ready one, the RPCs are for the localities whose pickers connect or fail them.
    let of_state = localities.into_iter().filter(|(_, of, _)| *of == state);
    let pickers = Weighted::new(of_state.map(|(weight, _, picker)| (weight, picker)));
    (
        state,
        pickers.map_or(PickerNode::Fail, PickerNode::Localities),
    )
}
