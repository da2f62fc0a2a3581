//! Hash of a root resource: the graph of types that its fields can contain.

use std::collections::BTreeMap;

use super::digest::Digest;
use super::encode::{ENUM, Encoder, MESSAGE};
use super::node::CanonicalNode;
use crate::model::{Kind, Message, MessageId, Name, Symbol, Tree};

const ROOT: &str = "ooxds api-root/1\0";

/// Returns the messages that services return as resources (`(envoy.annotations.resource).type`),
/// sorted by name, without duplicates.
#[must_use]
pub fn roots(tree: &Tree) -> Vec<&Message> {
    let named = |options: &crate::model::Options| {
        let resource = options
            .extension("envoy.annotations.resource")?
            .as_message()?;
        let name = resource.get_field_by_name("type")?;
        name.as_str().map(str::to_owned)
    };
    let names: std::collections::BTreeSet<String> = tree
        .services
        .iter()
        .filter_map(|service| named(&service.options))
        .collect();
    names.iter().filter_map(|name| tree.message(name)).collect()
}

/// Returns the hash of a message and of all messages and enums that its fields can contain,
/// recursively. Contents of `Any` fields are not included.
#[must_use]
pub fn root(tree: &Tree, message: &Message) -> Digest {
    let encoder = Encoder {
        tree,
        version_option: "",
        options: true,
    };
    let mut node = CanonicalNode::default();
    for (_, symbol) in reach(tree, message.id) {
        match symbol {
            Symbol::Message(id) => node.bytes(MESSAGE, &encoder.message(&tree[id])),
            Symbol::Enum(id) => node.bytes(ENUM, &encoder.enumeration(&tree[id])),
            Symbol::Service(_) => {}
        }
    }
    Digest::of(ROOT, [message.name.as_bytes(), &[0], &node.finish()])
}

/// Returns the types that a message can contain, itself included, by full name.
pub(crate) fn reach(tree: &Tree, from: MessageId) -> BTreeMap<Name, Symbol> {
    let mut reached = BTreeMap::new();
    let mut left = vec![from];
    while let Some(id) = left.pop() {
        let message = &tree[id];
        // Map entries are traversed but not counted: a map is encoded in its field.
        if !message.map_entry
            && reached
                .insert(message.name.clone(), Symbol::Message(id))
                .is_some()
        {
            continue;
        }
        for field in &message.fields {
            match field.kind {
                Kind::Message(id) | Kind::Group(id) => {
                    if !reached.contains_key(&tree[id].name) {
                        left.push(id);
                    }
                }
                Kind::Enum(id) => {
                    reached.insert(tree[id].name.clone(), Symbol::Enum(id));
                }
                Kind::Scalar(_) => {}
            }
        }
    }
    reached
}
