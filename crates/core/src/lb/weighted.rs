//! Choice by weight.

use super::chance::scale;

/// Items with weights, of which a random number chooses one.
///
/// [`Weighted::new`] is the only constructor, so there is at least one item and the bounds are ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighted<T> {
    /// Items, each with the end of its share.
    bounds: Box<[(u64, T)]>,
}

impl<T> Weighted<T> {
    /// Makes a choice of items with their weights; `None` if no weight is above zero. Items of weight zero are left
    /// out.
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

    /// Returns the item in whose share a uniform `random` number falls.
    #[must_use]
    pub fn pick(&self, random: u64) -> &T {
        let last = self.bounds.len() - 1;
        let point = scale(random, self.bounds[last].0);
        let index = self.bounds.partition_point(|(end, _)| *end <= point);
        &self.bounds[index.min(last)].1
    }

    /// Returns all items with their shares, in order. The shares are above zero, and their sum is 1.
    pub fn shares(&self) -> impl ExactSizeIterator<Item = (f64, &T)> {
        let total = self.bounds.last().map_or(1, |(end, _)| *end);
        let mut start = 0;
        self.bounds.iter().map(move |(end, item)| {
            let width = *end - std::mem::replace(&mut start, *end);
            (width as f64 / total as f64, item)
        })
    }

    /// Returns all items, in order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &T> {
        self.bounds.iter().map(|(_, item)| item)
    }
}
