//! A choice by weight.

use super::chance::scale;

/// Items with weights, of which a random number chooses one.
///
/// [`Weighted::new`] is the only way to make one, so the bounds are always ascending, and none is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighted<T> {
    /// Where each item's share ends, and the item.
    bounds: Box<[(u64, T)]>,
}

impl<T> Weighted<T> {
    /// `None` when no item has a weight above zero. Items with a weight of zero are left out.
    #[must_use]
    pub fn new(items: impl IntoIterator<Item = (u32, T)>) -> Option<Self> {
        let mut end = 0;
        let bounds: Box<[_]> = items
            .into_iter()
            .filter(|(weight, _)| *weight > 0)
            .map(|(weight, item)| {
                end += u64::from(weight);
                (end, item)
            })
            .collect();
        (!bounds.is_empty()).then_some(Self { bounds })
    }

    /// One item: each for its share of all `random` numbers.
    #[must_use]
    pub fn pick(&self, random: u64) -> &T {
        let last = self.bounds.len() - 1;
        let point = scale(random, self.bounds[last].0);
        let index = self.bounds.partition_point(|(end, _)| *end <= point);
        &self.bounds[index.min(last)].1
    }

    /// Every item, in order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &T> {
        self.bounds.iter().map(|(_, item)| item)
    }
}
