//! Comparison of a list before and after an update: the items that did not change.
//!
//! ```text
//!  before  a b c  x w    d e
//!  after   a b c  y x z  d e
//!          ─────  └──┬─┘ ───
//!          equal   by key equal
//! ```
//!
//! Most updates of an assignment change a few endpoints in a row, so few items are looked up by their keys.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns, for each item of the list after an update, the index of the same item before it; `None` for an item that is
/// new or has changed. Keys are unique in a list.
pub(super) fn unchanged<A, B, K: Hash + Eq>(
    before: &[A],
    after: &[B],
    is_same: impl Fn(&A, &B) -> bool,
    (key_before, key_after): (impl Fn(&A) -> K, impl Fn(&B) -> K),
) -> Vec<Option<usize>> {
    let same = before.iter().zip(after);
    let beginning = same.take_while(|(old, new)| is_same(old, new)).count();
    let (old, new) = (&before[beginning..], &after[beginning..]);
    let same = old.iter().rev().zip(new.iter().rev());
    let end = same.take_while(|(old, new)| is_same(old, new)).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);

    let mut indexes = Vec::with_capacity(after.len());
    indexes.extend((0..beginning).map(Some));
    let by_key: HashMap<K, usize> = match new {
        [] => HashMap::new(),
        _ => old.iter().map(key_before).zip(beginning..).collect(),
    };
    let index = |new: &B| {
        let index = *by_key.get(&key_after(new))?;
        is_same(&before[index], new).then_some(index)
    };
    indexes.extend(new.iter().map(index));
    indexes.extend((before.len() - end..before.len()).map(Some));
    indexes
}

#[cfg(test)]
mod tests {
    /// Compares lists of `(key, content)`.
    fn unchanged(before: &[(char, u8)], after: &[(char, u8)]) -> Vec<Option<usize>> {
        let key = |item: &(char, u8)| item.0;
        super::unchanged(before, after, PartialEq::eq, (key, key))
    }

    fn of(text: &str) -> Vec<(char, u8)> {
        text.chars().map(|key| (key, 0)).collect()
    }

    fn indexes(before: &str, after: &str) -> Vec<Option<usize>> {
        unchanged(&of(before), &of(after))
    }

    #[test]
    fn c243_unchanged_items_have_their_index_before() {
        assert_eq!(indexes("abc", "abc"), [Some(0), Some(1), Some(2)]);
        assert_eq!(indexes("abc", "axc"), [Some(0), None, Some(2)]);
        assert_eq!(indexes("abc", "ac"), [Some(0), Some(2)]);
        assert_eq!(indexes("ac", "abc"), [Some(0), None, Some(1)]);
        assert_eq!(indexes("", "ab"), [None, None]);
        assert_eq!(indexes("ab", ""), []);
        // Moved items are found by their keys.
        assert_eq!(
            indexes("abcde", "acxbe"),
            [Some(0), Some(2), None, Some(1), Some(4)]
        );
    }

    #[test]
    fn c243_items_with_other_content_have_changed() {
        let after = [('b', 0), ('a', 1), ('c', 0)];
        assert_eq!(unchanged(&of("abc"), &after), [Some(1), None, Some(2)]);
    }
}
