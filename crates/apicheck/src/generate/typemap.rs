//! Which type of a new major was which type before, by the annotations that messages carry.

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
#[must_use]
pub fn typemap(tree: &Tree) -> Vec<TypePair> {
    let mut pairs = Vec::new();
    for message in tree
        .messages
        .iter()
        .filter(|message| tree[message.file].target)
    {
        let Some(old) = previous(message) else {
            continue;
        };
        pairs.push(TypePair {
            old: old.to_owned(),
            new: message.name.to_string(),
            message: true,
            old_is_there: tree.message(old).is_some(),
        });
        pairs.extend(
            message
                .enums
                .iter()
                .filter_map(|id| enum_pair(tree, *id, old)),
        );
    }
    for file in tree.targets() {
        // The enums beside messages come from where the messages do.
        let origins = file
            .messages
            .iter()
            .filter_map(|id| previous(&tree[*id])?.rsplit_once('.'));
        let mut packages: Vec<&str> = origins.map(|(package, _)| package).collect();
        packages.sort_unstable();
        packages.dedup();
        for id in &file.enums {
            pairs.extend(
                packages
                    .iter()
                    .find_map(|package| enum_pair(tree, *id, package)),
            );
        }
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

fn enum_pair(tree: &Tree, id: EnumId, scope: &str) -> Option<TypePair> {
    let of = &tree[id];
    let old = format!("{scope}.{}", of.short_name());
    tree.enumeration(&old)?;
    Some(TypePair {
        old,
        new: of.name.to_string(),
        message: false,
        old_is_there: true,
    })
}
