//! Which packages the next major needs (V-38).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::plan::text_of;
use crate::bump::{candidates_by_status, frozen_by_status};
use crate::model::{Cardinality, EnumId, File, FileId, Kind, Message, MessageId, Name, Tree};

/// Why a type needs an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is deprecated itself.
    Deprecated,
    /// A field or value of it is: its name.
    DeprecatedMember(String),
    /// Its file goes to another package: its name.
    MovesTo(String),
    /// A type that it refers to needs one: its full name.
    RefersTo(String),
}

/// The version segment of a package, and the one after it: `v3` and `v3alpha` give `v4alpha`.
pub(crate) fn next_version(package: &str) -> Option<(&str, String)> {
    let last = package.rsplit('.').next()?;
    let digits: String = last
        .strip_prefix('v')?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let major: u32 = digits.parse().ok()?;
    Some((last, format!("v{}alpha", major.checked_add(1)?)))
}

/// The package that the next major of a package is: `a.v3` gives `a.v4alpha`.
pub(super) fn next_package(package: &str) -> Option<String> {
    let (last, next) = next_version(package)?;
    Some(format!("{}{next}", &package[..package.len() - last.len()]))
}

/// The types that need an upgrade, each with the first reason. Types of frozen packages, of
/// packages without version and of files that are not judged need none.
#[must_use]
pub fn pending(tree: &Tree) -> BTreeMap<Name, Reason> {
    let mut reasons: HashMap<Node, Reason> = HashMap::new();
    let eligible = eligible(tree);
    let mut left: Vec<Node> = Vec::new();
    for node in nodes(tree) {
        if eligible[node.file(tree).0 as usize]
            && let Some(reason) = own_reason(tree, node)
        {
            reasons.insert(node, reason);
            left.push(node);
        }
    }
    // From each type that needs one to those that refer to it, until nothing is added.
    let users = users(tree);
    while let Some(node) = left.pop() {
        for user in users.get(&node).into_iter().flatten() {
            if eligible[user.file(tree).0 as usize] && !reasons.contains_key(user) {
                reasons.insert(*user, Reason::RefersTo(node.name(tree).to_string()));
                left.push(*user);
            }
        }
    }
    let named = |(node, reason): (Node, Reason)| (node.name(tree).clone(), reason);
    reasons.into_iter().map(named).collect()
}

/// A message or an enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    Message(MessageId),
    Enum(EnumId),
}

impl Node {
    fn of(kind: Kind) -> Option<Node> {
        match kind {
            Kind::Scalar(_) => None,
            Kind::Message(id) | Kind::Group(id) => Some(Node::Message(id)),
            Kind::Enum(id) => Some(Node::Enum(id)),
        }
    }

    fn file(self, tree: &Tree) -> FileId {
        match self {
            Node::Message(id) => tree[id].file,
            Node::Enum(id) => tree[id].file,
        }
    }

    fn name(self, tree: &Tree) -> &Name {
        match self {
            Node::Message(id) => &tree[id].name,
            Node::Enum(id) => &tree[id].name,
        }
    }
}

fn nodes(tree: &Tree) -> impl Iterator<Item = Node> {
    let messages = tree
        .messages
        .iter()
        .map(|message| Node::Message(message.id));
    messages.chain(tree.enums.iter().map(|of| Node::Enum(of.id)))
}

/// By file: whether its types may need an upgrade.
fn eligible(tree: &Tree) -> Vec<bool> {
    let frozen = frozen_by_status(tree);
    let candidates = candidates_by_status(tree);
    let packages: BTreeSet<&str> = tree.files.iter().map(|file| &*file.package).collect();
    let made: BTreeSet<String> = packages
        .iter()
        .filter_map(|name| next_package(name))
        .collect();
    // What a run before made is made anew, and what has a successor already needs no other.
    let is_latest = |package: &str| {
        let stable = next_package(package).map(|next| next.trim_end_matches("alpha").to_owned());
        !made.contains(package) && stable.is_some_and(|next| !packages.contains(&*next))
    };
    let is = |file: &File| {
        let name = &*file.package;
        let open = !frozen.contains(name) && !candidates.contains(name);
        file.target && open && is_latest(name)
    };
    tree.files.iter().map(is).collect()
}

/// The package that a file asks to be moved to in the next major. A package that is there already
/// was made by a major before, unless it is what this one makes.
pub(super) fn moves_to<'a>(tree: &Tree, file: &'a File) -> Option<&'a str> {
    const OPTION: &str = "udpa.annotations.file_migrate";
    let package = text_of(&file.options, OPTION, "move_to_package")?;
    let (_, next) = next_version(&file.package)?;
    let is_next = package.rsplit('.').next() == Some(&*next);
    let is_there = || tree.files.iter().any(|other| &*other.package == package);
    (is_next || !is_there()).then_some(package)
}

fn own_reason(tree: &Tree, node: Node) -> Option<Reason> {
    let file = &tree[node.file(tree)];
    if let Some(package) = moves_to(tree, file) {
        return Some(Reason::MovesTo(package.to_owned()));
    }
    let member = |name: &Name| Reason::DeprecatedMember(name.to_string());
    match node {
        Node::Message(id) if tree[id].options.deprecated() => Some(Reason::Deprecated),
        Node::Enum(id) if tree[id].options.deprecated() => Some(Reason::Deprecated),
        Node::Message(id) => {
            let mut fields = tree[id].fields.iter();
            Some(member(
                &fields.find(|field| field.options.deprecated())?.name,
            ))
        }
        Node::Enum(id) => {
            let mut values = tree[id].values.iter();
            Some(member(
                &values.find(|value| value.options.deprecated())?.name,
            ))
        }
    }
}

/// The types that refer to each type: by a field, through a map entry, or by holding it.
fn users(tree: &Tree) -> HashMap<Node, Vec<Node>> {
    let mut users: HashMap<Node, Vec<Node>> = HashMap::new();
    for message in tree.messages.iter().filter(|message| !message.map_entry) {
        let user = Node::Message(message.id);
        for used in references(tree, message) {
            users.entry(used).or_default().push(user);
        }
        let nested = message.messages.iter().map(|id| Node::Message(*id));
        for inner in nested.chain(message.enums.iter().map(|id| Node::Enum(*id))) {
            users.entry(inner).or_default().push(user);
        }
    }
    users
}

fn references(tree: &Tree, message: &Message) -> Vec<Node> {
    let kinds = message.fields.iter().flat_map(|field| {
        let map = field.cardinality == Cardinality::Map;
        let entry = tree.map_entry(field).filter(|_| map);
        entry.map_or(vec![field.kind], |(_, value)| vec![value.kind])
    });
    kinds.filter_map(Node::of).collect()
}
