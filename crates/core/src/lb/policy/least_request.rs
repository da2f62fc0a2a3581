//! Least request: of some random ready children, the one with the fewest RPCs under way (gRFC A48).

use super::view::{Children, Pick};
use crate::lb::chance::scale;

/// Maximum number of children that a pick compares (gRFC A48).
const MAX_CHOICES: u32 = 10;

/// Ready children; at least one.
#[derive(Debug)]
pub(super) struct LeastRequestPicker {
    ready: Box<[u32]>,
    choices: u32,
}

impl LeastRequestPicker {
    /// Returns `None` without ready children.
    pub(super) fn new(ready: Box<[u32]>, choice_count: u32) -> Option<Self> {
        let choices = choice_count.min(MAX_CHOICES);
        (!ready.is_empty()).then_some(Self { ready, choices })
    }

    pub(super) fn pick(&self, children: &impl Children, random: &mut impl FnMut() -> u64) -> Pick {
        // gRFC A48: children are drawn with replacement, so the same one may be drawn twice.
        let draws = (0..self.choices).map(|_| {
            let index = scale(random(), self.ready.len() as u64);
            let child = self.ready[index as usize] as usize;
            (children.in_flight(child), child)
        });
        // The first of equals wins, because the order of the draws is random already.
        let least = draws.min_by_key(|(in_flight, _)| *in_flight);
        least.map_or(Pick::Queue, |(_, child)| Pick::Child(child))
    }
}
