//! The type map: types of a new major with their types one major before, read from annotations.

use std::collections::{BTreeSet, HashSet};

use crate::model::{EnumId, Message, Tree};
use crate::plan::text_of;

/// A type, and its name one major before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct TypePair {
    /// Full name one major before.
    pub old: String,
    /// Full name in this major.
    pub new: String,
    /// True for a message, false for an enum.
    pub message: bool,
    /// Whether the tree contains the old type as well.
    pub old_in_tree: bool,
}

/// Returns the pairs of a tree, sorted by new name. Messages have their old name in an annotation
/// (`udpa.annotations.versioning.previous_message_type`). The old enum has the same name inside the
/// old parent: the previous type of its message, or a package from which messages of its file come.
/// If the tree contains the old parent without that enum, the enum is new.
#[must_use]
pub fn typemap(tree: &Tree) -> Vec<TypePair> {
    let packages: HashSet<&str> = tree.files.iter().map(|file| &*file.package).collect();
    let mut pairs = Vec::new();
    for message in &tree.messages {
        let Some(old) = previous(message).filter(|_| tree[message.file].target) else {
            continue;
        };
        let old_in_tree = tree.message(old).is_some();
        pairs.push(TypePair {
            old: old.to_owned(),
            new: message.name.to_string(),
            message: true,
            old_in_tree,
        });
        let enums = message.enums.iter();
        pairs.extend(enums.filter_map(|id| enum_pair(tree, *id, &[(old, old_in_tree)])));
    }
    for file in tree.targets() {
        // Top-level enums come from the packages of the messages in their file.
        let origins = file
            .messages
            .iter()
            .filter_map(|id| previous(&tree[*id])?.rsplit_once('.'));
        let origins: BTreeSet<&str> = origins.map(|(package, _)| package).collect();
        let origins: Vec<(&str, bool)> = origins
            .into_iter()
            .map(|package| (package, packages.contains(package)))
            .collect();
        let enums = file.enums.iter();
        pairs.extend(enums.filter_map(|id| enum_pair(tree, *id, &origins)));
    }
    pairs.sort_by(|a, b| a.new.cmp(&b.new));
    pairs
}

fn previous(message: &Message) -> Option<&str> {
    text_of(
        &message.options,
        "udpa.annotations.versioning",
        "previous_message_type",
    )
}

/// Returns the pair of an enum. `scopes` are possible old parents, each with whether the tree
/// contains it.
fn enum_pair(tree: &Tree, id: EnumId, scopes: &[(&str, bool)]) -> Option<TypePair> {
    let of = &tree[id];
    let named = |scope: &str| format!("{scope}.{}", of.short_name());
    let found = scopes.iter().map(|(scope, _)| named(scope));
    let found = found
        .into_iter()
        .find(|old| tree.enumeration(old).is_some());
    let old_in_tree = found.is_some();
    let absent = || scopes.iter().find(|(_, is_there)| !is_there);
    Some(TypePair {
        old: found.or_else(|| Some(named(absent()?.0)))?,
        new: of.name.to_string(),
        message: false,
        old_in_tree,
    })
}
