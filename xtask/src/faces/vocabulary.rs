//! The words that names may have.

use std::collections::BTreeSet;

/// Words of the glossary, and terms of others.
#[derive(Debug)]
pub(super) struct Vocabulary(BTreeSet<String>);

impl Vocabulary {
    /// Reads the glossary of `ARCHITECTURE.md`, and a list of terms: `source: words`, a line each.
    pub(super) fn new(architecture: &str, terms: &str) -> Self {
        let glossary = architecture.split("| word | meaning |").nth(1);
        let rows = glossary.unwrap_or_default().lines();
        let rows = rows.filter_map(|row| row.strip_prefix("| ")?.split(" |").next());
        let terms = terms.lines().filter(|line| !line.starts_with('#'));
        let terms = terms.filter_map(|line| Some(line.split_once(": ")?.1));
        let all = rows.chain(terms).flat_map(words);
        Self(all.collect())
    }

    /// Returns the words of a name that the vocabulary does not have. A plural is the same word.
    pub(super) fn unknown(&self, name: &str) -> Vec<String> {
        words(name).filter(|word| !self.has(word)).collect()
    }

    fn has(&self, word: &str) -> bool {
        let singular = word.strip_suffix('s').unwrap_or(word);
        let of_y = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
        let of_es = word.strip_suffix("es").unwrap_or(word);
        let is_number = word.chars().all(|c| c.is_ascii_digit());
        is_number
            || [word, singular, of_es]
                .iter()
                .any(|word| self.0.contains(*word))
            || of_y.is_some_and(|word| self.0.contains(&word))
    }
}

/// Returns the words of a text in small letters: `held_back_total` has three.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase)
}
