//! Resources as words: `R1=1>C1` is route 1 with content 1, and refers to cluster 1. The letter is the resource type.

use std::sync::Arc;

use oxds_core::snapshot::Resource;
use oxds_types::{Reference, ResourceType};

/// Returns the resource type of a word.
pub(super) fn type_of(word: &str) -> ResourceType {
    match word.trim_start_matches('-').chars().next() {
        Some('C') => ResourceType::CLUSTER,
        Some('E') => ResourceType::ENDPOINT,
        Some('L') => ResourceType::LISTENER,
        Some('R') => ResourceType::ROUTE,
        Some('V') => ResourceType::VIRTUAL_HOST,
        _ => panic!("{word:?}: no such resource type"),
    }
}

/// Returns the names in words: `C` is no name, `C*` is the wildcard.
pub(super) fn names(words: &[&str]) -> Vec<String> {
    let words = words.iter().filter(|word| word.len() > 1);
    let name = |word: &&str| if word.ends_with('*') { "*" } else { *word }.to_owned();
    words.map(name).collect()
}

/// Creates the resource of a word like `R1=1>C1`.
pub(super) fn resource(text: &str) -> Resource {
    let name = text.split('=').next().unwrap_or(text);
    let needs = text.split_once('>').into_iter();
    let needs = needs.flat_map(|(_, needed)| needed.split(','));
    let needs = needs.map(|name| Reference {
        resource_type: type_of(name),
        name: Arc::from(name),
    });
    Resource::new(type_of(text), name, text.as_bytes()).with_references(needs.collect::<Vec<_>>())
}

pub(super) fn text(value: impl AsRef<[u8]>) -> String {
    String::from_utf8(value.as_ref().to_vec()).unwrap()
}
