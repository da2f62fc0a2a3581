//! Pickers: the form of a policy that the request path reads.

use super::round_robin::RoundRobinPicker;
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
    RoundRobin(RoundRobinPicker),
    Localities(Weighted<PickerNode>),
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
}

impl PickerNode {
    #[expect(
        clippy::only_used_in_recursion,
        reason = "no policy of this list reads the call"
    )]
    fn pick(
        &self,
        call: &PickCall<'_>,
        children: &impl Children,
        random: &mut impl FnMut() -> u64,
    ) -> Pick {
        match self {
            Self::Queue => Pick::Queue,
            Self::Fail => Pick::Fail,
            Self::RoundRobin(picker) => picker.pick(),
            // gRFC A27: a locality gets its share of the weight of all ready localities (C-244).
            Self::Localities(localities) => {
                let locality = localities.pick(random());
                locality.pick(call, children, random)
            }
        }
    }
}
