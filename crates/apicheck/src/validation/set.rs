//! Sets of integers, as intervals.

/// Set of integers: closed intervals, sorted, with a gap between any two.
///
/// All ordered types are mapped to integers first (see [`super::scale`]). One representation serves
/// integers, floats, durations, timestamps and lengths, and equal sets are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Set(Vec<(i128, i128)>);

impl Set {
    /// Creates the interval from `first` to `last`; empty if they cross.
    pub(super) fn between(first: i128, last: i128) -> Set {
        Set::from_stretches(vec![(first, last)])
    }

    /// Creates a set of single numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = i128>) -> Set {
        Set::from_stretches(numbers.into_iter().map(|number| (number, number)).collect())
    }

    fn from_stretches(mut stretches: Vec<(i128, i128)>) -> Set {
        stretches.retain(|(first, last)| first <= last);
        stretches.sort_unstable();
        let mut merged: Vec<(i128, i128)> = Vec::with_capacity(stretches.len());
        for (first, last) in stretches {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Set(merged)
    }

    pub(super) fn contains(&self, number: i128) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (first..=last).contains(&&number))
    }

    pub(super) fn union(&self, other: &Set) -> Set {
        Set::from_stretches(self.0.iter().chain(&other.0).copied().collect())
    }

    pub(super) fn intersection(&self, other: &Set) -> Set {
        let meet = |a: &(i128, i128), b: &(i128, i128)| (a.0.max(b.0), a.1.min(b.1));
        Set::from_stretches(
            self.0
                .iter()
                .flat_map(|a| other.0.iter().map(move |b| meet(a, b)))
                .collect(),
        )
    }

    /// Returns the numbers in `self` that are not in `other`.
    pub(super) fn without(&self, other: &Set) -> Set {
        let mut left = self.0.clone();
        for (first, last) in &other.0 {
            left = left
                .into_iter()
                .flat_map(|(from, to)| {
                    [
                        (from, to.min(first.saturating_sub(1))),
                        (from.max(last.saturating_add(1)), to),
                    ]
                })
                .filter(|(from, to)| from <= to)
                .collect();
        }
        Set::from_stretches(left)
    }

    pub(super) fn is_subset(&self, other: &Set) -> bool {
        self.without(other).0.is_empty()
    }

    /// Returns the smallest and the largest number, or `None` for the empty set.
    pub(super) fn ends(&self) -> Option<(i128, i128)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Set;

    #[test]
    fn adjacent_intervals_are_merged() {
        assert_eq!(Set::of([3, 1, 2, 2]), Set::between(1, 3));
        assert_ne!(Set::of([1, 3]), Set::between(1, 3));
        assert_eq!(Set::between(2, 1), Set::default());
    }

    fn small() -> impl Strategy<Value = Set> {
        proptest::collection::vec((-20i128..20, 0i128..6), 0..5).prop_map(|stretches| {
            stretches
                .into_iter()
                .map(|(first, length)| Set::between(first, first + length))
                .fold(Set::default(), |all, one| all.union(&one))
        })
    }

    proptest! {
        #[test]
        fn operations_match_set_semantics(a in small(), b in small()) {
            for number in -30..30 {
                let (in_a, in_b) = (a.contains(number), b.contains(number));
                prop_assert_eq!(a.union(&b).contains(number), in_a || in_b);
                prop_assert_eq!(a.intersection(&b).contains(number), in_a && in_b);
                prop_assert_eq!(a.without(&b).contains(number), in_a && !in_b);
            }
            let all_in = (-30..30).all(|number| !a.contains(number) || b.contains(number));
            prop_assert_eq!(a.is_subset(&b), all_in);
        }
    }
}
