//! Selection of the packages that need a next major (V-38).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::bump::{candidates_by_status, frozen_by_status};
use crate::model::{Cardinality, EnumId, File, FileId, Kind, Message, MessageId, Name, Tree};
use crate::package::PackageName;
use crate::plan::text_of;

/// Reason why a type needs the next major.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpgradeReason {
    /// The type is deprecated.
    Deprecated,
    /// A field or value of the type is deprecated: its name.
    DeprecatedMember(String),
    /// The new package of a file that moves.
    MovesTo(String),
    /// The type refers to one that needs the next major: its full name.
    RefersTo(String),
}

/// Returns the version segment of a package, and the next one: `v3` and `v3alpha` give `v4alpha`.
pub(super) fn next_version(package: &str) -> Option<(&str, String)> {
    let name = PackageName::of(package);
    let version = name.version.filter(|_| name.rest.is_empty())?;
    let last = package.rsplit('.').next()?;
    Some((last, format!("v{}alpha", version.major.checked_add(1)?)))
}

/// Returns the name of the next major of a package: `a.v3` gives `a.v4alpha`.
pub(super) fn next_package(package: &str) -> Option<String> {
    let (last, next) = next_version(package)?;
    Some(format!("{}{next}", &package[..package.len() - last.len()]))
}

/// Returns the types that need the next major, each with its first reason. Types of frozen
/// packages, of packages without a version and of files that are not targets need none.
#[must_use]
pub fn pending(tree: &Tree) -> BTreeMap<Name, UpgradeReason> {
    let mut reasons: HashMap<TypeId, UpgradeReason> = HashMap::new();
    let eligible = eligible(tree);
    let mut left: Vec<TypeId> = Vec::new();
    for node in nodes(tree) {
        // Frozen packages and packages with a successor get no further major (V-38).
        if eligible[node.file(tree).0 as usize]
            && let Some(reason) = own_reason(tree, node)
        {
            reasons.insert(node, reason);
            left.push(node);
        }
    }
    // Types that refer to a selected type are selected as well, until nothing is added.
    let users = users(tree);
    while let Some(node) = left.pop() {
        for user in users.get(&node).into_iter().flatten() {
            if eligible[user.file(tree).0 as usize] && !reasons.contains_key(user) {
                reasons.insert(*user, UpgradeReason::RefersTo(node.name(tree).to_string()));
                left.push(*user);
            }
        }
    }
    let named = |(node, reason): (TypeId, UpgradeReason)| (node.name(tree).clone(), reason);
    reasons.into_iter().map(named).collect()
}

/// A message or an enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TypeId {
    Message(MessageId),
    Enum(EnumId),
}

impl TypeId {
    fn of(kind: Kind) -> Option<TypeId> {
        match kind {
            Kind::Scalar(_) => None,
            Kind::Message(id) | Kind::Group(id) => Some(TypeId::Message(id)),
            Kind::Enum(id) => Some(TypeId::Enum(id)),
        }
    }

    fn file(self, tree: &Tree) -> FileId {
        match self {
            TypeId::Message(id) => tree[id].file,
            TypeId::Enum(id) => tree[id].file,
        }
    }

    fn name(self, tree: &Tree) -> &Name {
        match self {
            TypeId::Message(id) => &tree[id].name,
            TypeId::Enum(id) => &tree[id].name,
        }
    }
}

fn nodes(tree: &Tree) -> impl Iterator<Item = TypeId> {
    let messages = tree
        .messages
        .iter()
        .map(|message| TypeId::Message(message.id));
    messages.chain(tree.enums.iter().map(|of| TypeId::Enum(of.id)))
}

/// Returns, for each file, whether its types may need a next major.
fn eligible(tree: &Tree) -> Vec<bool> {
    let frozen = frozen_by_status(tree);
    let candidates = candidates_by_status(tree);
    let packages: BTreeSet<&str> = tree.files.iter().map(|file| &*file.package).collect();
    let made: BTreeSet<String> = packages
        .iter()
        .filter_map(|name| next_package(name))
        .collect();
    // Output of an earlier run is generated again, and a package with a stable successor needs no
    // other one.
    let is_latest = |package: &str| {
        let stable = next_package(package).map(|next| next.trim_end_matches("alpha").to_owned());
        !made.contains(package) && stable.is_some_and(|next| !packages.contains(&*next))
    };
    let current = |file: &File| {
        let name = &*file.package;
        let open = !frozen.contains(name) && !candidates.contains(name);
        file.target && open && is_latest(name)
    };
    tree.files.iter().map(current).collect()
}

/// Returns the package to which a file moves in the next major. An existing package was made by an
/// earlier major, unless it is the one that this run generates.
pub(super) fn moves_to<'a>(tree: &Tree, file: &'a File) -> Option<&'a str> {
    const OPTION: &str = "udpa.annotations.file_migrate";
    let package = text_of(&file.options, OPTION, "move_to_package")?;
    let (_, next) = next_version(&file.package)?;
    let is_next = package.rsplit('.').next() == Some(&*next);
    let is_there = || tree.files.iter().any(|other| &*other.package == package);
    (is_next || !is_there()).then_some(package)
}

fn own_reason(tree: &Tree, node: TypeId) -> Option<UpgradeReason> {
    let file = &tree[node.file(tree)];
    if let Some(package) = moves_to(tree, file) {
        return Some(UpgradeReason::MovesTo(package.to_owned()));
    }
    let member = |name: &Name| UpgradeReason::DeprecatedMember(name.to_string());
    match node {
        TypeId::Message(id) if tree[id].options.deprecated() => Some(UpgradeReason::Deprecated),
        TypeId::Enum(id) if tree[id].options.deprecated() => Some(UpgradeReason::Deprecated),
        TypeId::Message(id) => {
            let mut fields = tree[id].fields.iter();
            Some(member(
                &fields.find(|field| field.options.deprecated())?.name,
            ))
        }
        TypeId::Enum(id) => {
            let mut values = tree[id].values.iter();
            Some(member(
                &values.find(|value| value.options.deprecated())?.name,
            ))
        }
    }
}

/// Returns the types that refer to each type: by a field, through a map entry, or as its parent.
fn users(tree: &Tree) -> HashMap<TypeId, Vec<TypeId>> {
    let mut users: HashMap<TypeId, Vec<TypeId>> = HashMap::new();
    for message in tree.messages.iter().filter(|message| !message.map_entry) {
        let user = TypeId::Message(message.id);
        for used in references(tree, message) {
            users.entry(used).or_default().push(user);
        }
        let nested = message.messages.iter().map(|id| TypeId::Message(*id));
        for inner in nested.chain(message.enums.iter().map(|id| TypeId::Enum(*id))) {
            users.entry(inner).or_default().push(user);
        }
    }
    users
}

fn references(tree: &Tree, message: &Message) -> Vec<TypeId> {
    let kinds = message.fields.iter().flat_map(|field| {
        let map = field.cardinality == Cardinality::Map;
        let entry = tree.map_entry(field).filter(|_| map);
        entry.map_or(vec![field.kind], |(_, value)| vec![value.kind])
    });
    kinds.filter_map(TypeId::of).collect()
}
