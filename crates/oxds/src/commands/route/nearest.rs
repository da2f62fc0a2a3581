//! Names that are near a wrong one.

/// Number of names in an error.
const MOST: usize = 5;

/// Returns the names that differ least, the nearest one first.
pub(super) fn nearest(wanted: &str, names: &[String]) -> Vec<String> {
    let mut ranked: Vec<_> = names
        .iter()
        .map(|name| (distance(wanted, name), name))
        .collect();
    ranked.sort_unstable();
    let nearest = ranked.into_iter().take(MOST);
    nearest.map(|(_, name)| name.clone()).collect()
}

/// Returns the number of characters to insert, to remove or to replace. A name that contains the other one is near.
fn distance(one: &str, other: &str) -> usize {
    /// Longer names are compared by their begin: the cost grows with the square.
    const LONGEST: usize = 100;
    if other.contains(one) || one.contains(other) {
        return 1;
    }
    let other: Vec<_> = other.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, a) in one.chars().take(LONGEST).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_comes_first() {
        let names = ["catalog", "checkout", "edge"].map(str::to_owned);
        assert_eq!(nearest("chekout", &names)[0], "checkout");
        assert_eq!(nearest("catalog-v2", &names)[0], "catalog");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 1, "it contains the empty name");
    }
}
