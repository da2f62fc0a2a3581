//! Subscribed names, in order.
//!
//! A list rather than a tree: it needs no memory besides the entries. Responses and ACKs, which are in order too, are
//! matched in one walk, and the names that a request adds or removes are moved in one pass.

use std::sync::Arc;

use super::SubscribedName;

/// List of names, sorted, without duplicates.
#[derive(Debug, Default)]
pub(super) struct SortedNames(Vec<SubscribedName>);

impl SortedNames {
    pub(super) fn as_slice(&self) -> &[SubscribedName] {
        &self.0
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [SubscribedName] {
        &mut self.0
    }

    /// Returns the place of a name, or where it belongs.
    pub(super) fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|named| (**named.name()).cmp(name))
    }

    /// As [`find`](Self::find); fast if the name is at the expected place.
    pub(super) fn find_near(&self, at: usize, name: &str) -> Result<usize, usize> {
        match self.0.get(at) {
            Some(named) if **named.name() == *name => Ok(at),
            _ => self.find(name),
        }
    }

    /// Adds names that are not in the list. They must be in order.
    pub(super) fn add(&mut self, names: &[Arc<str>]) {
        if names.is_empty() {
            return;
        }
        let places = names.iter().map(|name| self.find(name));
        let places: Vec<usize> = places.map(|place| place.unwrap_or_else(|at| at)).collect();
        let mut grown = Vec::with_capacity(self.0.len() + names.len());
        let (mut old, mut moved) = (std::mem::take(&mut self.0).into_iter(), 0);
        for (name, place) in names.iter().zip(places) {
            grown.extend(old.by_ref().take(place - moved));
            grown.push(SubscribedName::new(Arc::clone(name)));
            moved = place;
        }
        grown.extend(old);
        self.0 = grown;
    }

    /// Removes names, which must be in order; returns those that were in the list.
    pub(super) fn take(&mut self, names: &[&str]) -> Vec<Arc<str>> {
        let places = names.iter().filter_map(|name| self.find(name).ok());
        let places: Vec<usize> = places.collect();
        let taken = places.iter().map(|at| Arc::clone(self.0[*at].name()));
        let taken = taken.collect();
        if let Some(first) = places.first() {
            let (mut at, mut places) = (*first, places.iter().copied().peekable());
            let kept = self.0.split_off(at).into_iter().filter(|_| {
                let goes = places.next_if_eq(&at).is_some();
                at += 1;
                !goes
            });
            self.0.extend(kept);
        }
        taken
    }

    /// Keeps the names for which `keep` is true. It is called in order.
    pub(super) fn retain(&mut self, keep: impl FnMut(&SubscribedName) -> bool) {
        self.0.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<Arc<str>> {
        list.iter().map(|&name| name.into()).collect()
    }

    fn list(names: &SortedNames) -> Vec<&str> {
        names
            .as_slice()
            .iter()
            .map(|named| &**named.name())
            .collect()
    }

    #[test]
    fn added_and_removed_names_stay_in_order() {
        let mut all = SortedNames::default();
        all.add(&names(&["b", "d"]));
        all.add(&names(&["a", "c", "e"]));
        assert_eq!(list(&all), ["a", "b", "c", "d", "e"]);
        assert_eq!(all.take(&["a", "aa", "d", "z"]), names(&["a", "d"]));
        assert_eq!(list(&all), ["b", "c", "e"]);
        assert_eq!(all.take(&["q"]), names(&[]));
        assert_eq!((all.find("c"), all.find("d")), (Ok(1), Err(2)));
        assert_eq!(
            (all.find_near(2, "e"), all.find_near(0, "e")),
            (Ok(2), Ok(2))
        );
    }
}
