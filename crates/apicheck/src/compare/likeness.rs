//! Finds what was renamed: pairs things that share most of what they are made of.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// A trait that more things than this have in common tells none of them apart; leaving it out keeps
/// the work linear.
const CROWD: usize = 32;

/// Fewer traits than this are no evidence, unless all of them agree.
pub(super) const FEW: usize = 3;

/// Pairs each of `old` with the one of `new` that shares most traits with it: at least half of them.
///
/// Each is in one pair at most; the stronger likeness wins, then the order given. Things without traits
/// stay alone.
pub(super) fn alike<F: Eq + Hash>(old: &[Vec<F>], new: &[Vec<F>]) -> Vec<(usize, usize)> {
    if old.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let mut holders: HashMap<&F, Vec<usize>> = HashMap::new();
    for (index, traits) in new.iter().enumerate() {
        for one in traits {
            holders.entry(one).or_default().push(index);
        }
    }
    let mut candidates = Vec::new();
    for (index, traits) in old.iter().enumerate() {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for one in traits {
            let known = holders.get(one).filter(|known| known.len() <= CROWD);
            for holder in known.into_iter().flatten() {
                *shared.entry(*holder).or_default() += 1;
            }
        }
        let enough = shared
            .into_iter()
            .filter(|&(other, count)| convinces(count, traits.len(), new[other].len()));
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

fn convinces(shared: usize, old: usize, new: usize) -> bool {
    if old < FEW {
        shared == old && shared == new
    } else {
        shared * 2 >= old
    }
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn the_stronger_likeness_wins() {
        let old = [vec![1, 2, 3, 4], vec![1, 2, 3, 9]];
        let new = [vec![1, 2, 3, 9], vec![1, 2, 3, 4, 5]];
        assert_eq!(alike(&old, &new), [(0, 1), (1, 0)]);
    }

    #[test]
    fn few_traits_must_all_agree() {
        assert_eq!(alike(&[vec![1, 2]], &[vec![1, 2]]), [(0, 0)]);
        assert_eq!(alike(&[vec![1, 2]], &[vec![1, 2, 3]]), []);
        assert_eq!(alike::<i32>(&[vec![]], &[vec![]]), []);
    }

    #[test]
    fn less_than_half_is_no_likeness() {
        assert_eq!(alike(&[vec![1, 2, 3, 4, 5]], &[vec![1, 2]]), []);
    }
}
