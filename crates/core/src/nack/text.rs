//! The text of a NACK, and the names in it.

use std::{collections::BTreeSet, ops::Bound};

/// Length limit, in bytes, of the part of a text that is stored.
const MAX_STORED: usize = 4096;

/// Length at which Envoy cuts the text of a NACK, in bytes.
const ENVOY_LIMIT: usize = 4096;

/// End of a text that Envoy cut.
const ENVOY_CUT: &str = "...(truncated)";

/// `error_detail.message` of a NACK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NackText<'a> {
    text: &'a str,
    /// The client cut the text, so its last word may be the start of another one.
    is_cut: bool,
}

impl<'a> NackText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let whole = text.strip_suffix(ENVOY_CUT);
        Self {
            text: whole.unwrap_or(text),
            is_cut: whole.is_some() || text.len() == ENVOY_LIMIT,
        }
    }

    /// Returns the part of the text that is stored.
    pub(crate) fn stored(self) -> &'a str {
        let mut end = self.text.len().min(MAX_STORED);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[..end]
    }

    /// Returns which of these names the whole text contains as words: neither `api-v2` nor `api.v2` mentions `api`, but
    /// `api` at the end of a sentence does.
    ///
    /// One pass over the text, with a lookup of a few steps per word, whatever the number of names.
    pub(crate) fn named<'n>(self, names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
        let names: BTreeSet<&str> = names.collect();
        let mut found = BTreeSet::new();
        let mut before = Before::default();
        for (at, next) in self.text.char_indices() {
            if !before.continues_word() {
                let rest = &self.text[at..];
                let here = prefixes(&names, rest).filter(|name| self.ends_word(rest, name.len()));
                found.extend(here);
            }
            before = before.then(next);
        }
        found
    }

    /// Whether a word ends after this many bytes of `rest`, which is an end of the text.
    fn ends_word(self, rest: &str, len: usize) -> bool {
        let mut after = rest[len..].chars();
        match after.next() {
            Some('.') => !after.next().is_some_and(joins),
            Some(next) => !joins(next),
            None => !self.is_cut,
        }
    }
}

/// The two characters before a place in a text.
#[derive(Debug, Clone, Copy, Default)]
struct Before(Option<char>, Option<char>);

impl Before {
    fn then(self, next: char) -> Self {
        Self(Some(next), self.0)
    }

    fn continues_word(self) -> bool {
        match self {
            Self(Some('.'), second) => second.is_some_and(joins),
            Self(first, _) => first.is_some_and(joins),
        }
    }
}

/// Whether this character is part of a word.
fn joins(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '|')
}

/// Returns the names with which `text` begins, longest first.
fn prefixes<'n, 't>(
    names: &'t BTreeSet<&'n str>,
    text: &'t str,
) -> impl Iterator<Item = &'n str> + use<'n, 't> {
    let mut end = text.len();
    std::iter::from_fn(move || {
        loop {
            // The greatest name up to here begins the text, or shares its start with all shorter ones that do.
            let upto = (Bound::Unbounded, Bound::Included(&text[..end]));
            let name = *names.range::<str, _>(upto).next_back()?;
            if name.is_empty() {
                return None;
            }
            let shared = shared_start(name, &text[..end]);
            end = if shared == name.len() {
                previous_boundary(text, shared)
            } else {
                shared
            };
            if shared == name.len() {
                return Some(name);
            }
        }
    })
}

/// Number of equal bytes at the start of both texts, up to a whole character.
fn shared_start(one: &str, other: &str) -> usize {
    let equal = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
    let mut len = equal.count();
    while !other.is_char_boundary(len) {
        len -= 1;
    }
    len
}

fn previous_boundary(text: &str, at: usize) -> usize {
    let before = text[..at].chars().next_back();
    at - before.map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'n>(text: &str, names: &[&'n str]) -> Vec<&'n str> {
        let named = NackText::new(text).named(names.iter().copied());
        named.into_iter().collect()
    }

    #[test]
    fn name_is_found_only_as_a_word() {
        let text = "Error adding/updating cluster(s) api-v2: field x, shop.cart: no endpoints";
        let all = ["", "api", "api-v2", "cart", "shop", "shop.cart", "v2"];
        assert_eq!(named(text, &all), ["api-v2", "shop.cart"]);
        assert_eq!(named("cannot use shop.", &["shop"]), ["shop"]);
        assert_eq!(named("é: ä is bad", &["ä", "é"]), ["ä", "é"]);
    }

    #[test]
    fn names_that_begin_with_each_other_are_found() {
        let all = ["a", "a b", "a b c", "a c"];
        assert_eq!(named("'a b c' and a", &all), ["a", "a b", "a b c"]);
        assert_eq!(named("x (a c)", &all), ["a", "a c"]);
    }

    /// Envoy cuts a text after 4,096 bytes: a name that ends there may be the start of another one.
    #[test]
    fn name_at_the_cut_proves_nothing() {
        let exact = format!("{} api", "x".repeat(ENVOY_LIMIT - 4));
        assert_eq!(exact.len(), ENVOY_LIMIT);
        assert_eq!(named(&exact, &["api"]), [""; 0]);
        assert_eq!(named(&format!("{exact}{ENVOY_CUT}"), &["api"]), [""; 0]);
        assert_eq!(named(&format!("{exact}: bad"), &["api"]), ["api"]);
    }

    #[test]
    fn stored_text_is_cut_between_characters() {
        let long = "ä".repeat(MAX_STORED);
        let cut = NackText::new(&long).stored();
        assert!(cut.len() <= MAX_STORED && cut.chars().all(|c| c == 'ä'));
    }
}
