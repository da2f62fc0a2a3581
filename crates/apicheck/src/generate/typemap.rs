//! Which type of a new major was which type before, by the annotations that messages carry.

use std::collections::{BTreeSet, HashSet};

use crate::model::{EnumId, Message, Tree};

use super::plan::text_of;

/// A type and what it was one major before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypePair {
    /// The full name it had.
    pub old: String,
    /// The full name it has.
    pub new: String,
    /// Whether it is a message; an enum otherwise.
    pub message: bool,
    /// Whether the tree has the old type as well.
    pub old_is_there: bool,
}

/// The pairs of a tree, by new name. Messages say what they were
/// (`udpa.annotations.versioning.previous_message_type`); an enum was the one of its name in what
/// encloses it: the message that its message was, or a package that messages of its file come from.
/// Where the tree has what enclosed it and no such enum, the enum is new.
#[must_use]
pub fn typemap(tree: &Tree) -> Vec<TypePair> {
    let packages: HashSet<&str> = tree.files.iter().map(|file| &*file.package).collect();
    let mut pairs = Vec::new();
    for message in &tree.messages {
        let Some(old) = previous(message).filter(|_| tree[message.file].target) else {
            continue;
        };
        let old_is_there = tree.message(old).is_some();
        pairs.push(TypePair {
            old: old.to_owned(),
            new: message.name.to_string(),
            message: true,
            old_is_there,
        });
        let enums = message.enums.iter();
        pairs.extend(enums.filter_map(|id| enum_pair(tree, *id, &[(old, old_is_there)])));
    }
    for file in tree.targets() {
        // The enums beside messages come from where the messages do.
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

/// What an enum was, in one of these scopes, each with whether the tree has it.
fn enum_pair(tree: &Tree, id: EnumId, scopes: &[(&str, bool)]) -> Option<TypePair> {
    let of = &tree[id];
    let named = |scope: &str| format!("{scope}.{}", of.short_name());
    let found = scopes.iter().map(|(scope, _)| named(scope));
    let found = found
        .into_iter()
        .find(|old| tree.enumeration(old).is_some());
    let old_is_there = found.is_some();
    let absent = || scopes.iter().find(|(_, is_there)| !is_there);
    Some(TypePair {
        old: found.or_else(|| Some(named(absent()?.0)))?,
        new: of.name.to_string(),
        message: false,
        old_is_there,
    })
}
