//! Pickers: the form of a policy that the request path reads.

use super::custom::CustomNodePicker;
use super::least_request::LeastRequestPicker;
use super::ring_hash::RingHashPicker;
use super::round_robin::RoundRobinPicker;
use super::stride::StridePicker;
use super::view::{Children, Pick, PickCall};
use crate::lb::weighted::Weighted;

/// Chooses the child of each RPC, for the connectivity that the policy had at its last update.
#[derive(Debug)]
pub struct PolicyPicker(pub(super) PickerNode);

/// Picker of a policy, or of one inside another.
#[derive(Debug)]
pub(super) enum PickerNode {
    /// No child is ready yet.
    Queue,
    /// All children have failed.
    Fail,
    /// The same for every RPC.
    Always(Pick),
    RoundRobin(RoundRobinPicker),
    LeastRequest(LeastRequestPicker),
    RingHash(RingHashPicker),
    Stride(StridePicker),
    Custom(CustomNodePicker),
    Localities(Weighted<PickerNode>),
}

/// A picker that makes every RPC wait.
impl Default for PolicyPicker {
    fn default() -> Self {
        Self(PickerNode::Queue)
    }
}

impl PolicyPicker {
    /// Chooses the child for an RPC. `random` gives uniform random numbers.
    pub fn pick(
        &self,
        call: &PickCall<'_>,
        children: &impl Children,
        random: &mut impl FnMut() -> u64,
    ) -> Pick {
        self.0.pick(call, children, random)
    }

    /// Adds the headers that a policy of the program has for an attempt that goes to `child`, by name and value.
    pub fn add_headers(&self, call: &PickCall<'_>, child: usize, add: &mut dyn FnMut(&str, &str)) {
        self.0.add_headers(call, child, add);
    }

    /// Returns the children that are picked by weight, each with its weight: the largest is 65,535. Empty unless
    /// weights are known (gRFC A58).
    #[must_use]
    pub fn weights(&self) -> Vec<(usize, u16)> {
        let mut weights = Vec::new();
        self.0.add_weights(&mut weights);
        weights
    }
}

impl PickerNode {
    fn pick(
        &self,
        call: &PickCall<'_>,
        children: &impl Children,
        random: &mut impl FnMut() -> u64,
    ) -> Pick {
        match self {
            Self::Queue => Pick::Queue,
            Self::Fail => Pick::Fail,
            Self::Always(pick) => *pick,
            Self::RoundRobin(picker) => picker.pick(),
            Self::LeastRequest(picker) => picker.pick(children, random),
            Self::RingHash(picker) => picker.pick(call),
            Self::Stride(picker) => picker.pick(),
            Self::Custom(picker) => picker.pick(call, random),
            // gRFC A27: a locality gets its share of the weight of all ready localities (C-244).
            Self::Localities(localities) => {
                let locality = localities.pick(random());
                locality.pick(call, children, random)
            }
        }
    }

    fn add_headers(&self, call: &PickCall<'_>, child: usize, add: &mut dyn FnMut(&str, &str)) {
        match self {
            Self::Custom(picker) => picker.add_headers(call, child, add),
            Self::Localities(localities) => {
                for locality in localities.items() {
                    // All localities have the same policy, so that most calls end here at once.
                    let Self::Custom(picker) = locality else {
                        return;
                    };
                    picker.add_headers(call, child, add);
                }
            }
            _ => {}
        }
    }

    fn add_weights(&self, weights: &mut Vec<(usize, u16)>) {
        match self {
            Self::Stride(picker) => {
                weights.extend(
                    picker
                        .weights()
                        .map(|(child, weight)| (child as usize, weight)),
                );
            }
            Self::Localities(localities) => {
                for locality in localities.items() {
                    locality.add_weights(weights);
                }
            }
            _ => {}
        }
    }
}
