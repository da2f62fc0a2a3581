//! Detection of renames: pairs things with similar characteristics.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// A characteristic that more things share does not identify any of them. Ignoring it keeps the
/// work linear.
const MAX_HOLDERS: usize = 32;

/// Fewer characteristics are no evidence, unless all of them are equal.
const MIN_CHARACTERISTICS: usize = 3;

/// Pairs each of `old` with the one of `new` that shares most of its characteristics, at least half
/// of them.
///
/// Each thing is in at most one pair. The pair with more shared characteristics wins, then the
/// given order. Things without characteristics stay unpaired.
pub(super) fn pair_similar<F: Eq + Hash>(old: &[Vec<F>], new: &[Vec<F>]) -> Vec<(usize, usize)> {
    pair_if(old, new, |index, other, shared| {
        is_similar(shared, old[index].len(), new[other].len())
    })
}

/// Pairs each of `old` with the one of `new` that shares most of its characteristics, if
/// `is_enough(old index, new index, number of shared characteristics)`.
pub(super) fn pair_if<F: Eq + Hash>(
    old: &[Vec<F>],
    new: &[Vec<F>],
    is_enough: impl Fn(usize, usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    if old.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let mut holders: HashMap<&F, Vec<usize>> = HashMap::new();
    for (index, characteristics) in new.iter().enumerate() {
        for one in characteristics {
            holders.entry(one).or_default().push(index);
        }
    }
    let mut candidates = Vec::new();
    for (index, characteristics) in old.iter().enumerate() {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for one in characteristics {
            let known = holders.get(one).filter(|known| known.len() <= MAX_HOLDERS);
            for holder in known.into_iter().flatten() {
                *shared.entry(*holder).or_default() += 1;
            }
        }
        let enough = shared
            .into_iter()
            .filter(|&(other, count)| is_enough(index, other, count));
        candidates.extend(enough.map(|(other, count)| (Reverse(count), index, other)));
    }
    candidates.sort_unstable();
    let (mut old_taken, mut new_taken) = (vec![false; old.len()], vec![false; new.len()]);
    let mut pairs = Vec::new();
    for (_, index, other) in candidates {
        if !old_taken[index] && !new_taken[other] {
            (old_taken[index], new_taken[other]) = (true, true);
            pairs.push((index, other));
        }
    }
    pairs.sort_unstable();
    pairs
}

fn is_similar(shared: usize, old: usize, new: usize) -> bool {
    if old < MIN_CHARACTERISTICS {
        shared == old && shared == new
    } else {
        shared * 2 >= old
    }
}

#[cfg(test)]
mod tests {
    use super::pair_similar;

    #[test]
    fn most_shared_characteristics_win() {
        let old = [vec![1, 2, 3, 4], vec![1, 2, 3, 9]];
        let new = [vec![1, 2, 3, 9], vec![1, 2, 3, 4, 5]];
        assert_eq!(pair_similar(&old, &new), [(0, 1), (1, 0)]);
    }

    #[test]
    fn few_characteristics_must_all_be_equal() {
        assert_eq!(pair_similar(&[vec![1, 2]], &[vec![1, 2]]), [(0, 0)]);
        assert_eq!(pair_similar(&[vec![1, 2]], &[vec![1, 2, 3]]), []);
        assert_eq!(pair_similar::<i32>(&[vec![]], &[vec![]]), []);
    }

    #[test]
    fn less_than_half_shared_gives_no_pair() {
        assert_eq!(pair_similar(&[vec![1, 2, 3, 4, 5]], &[vec![1, 2]]), []);
    }
}
