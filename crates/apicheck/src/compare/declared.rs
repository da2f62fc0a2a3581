//! Pairs of elements with a full name: messages, enums, services.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use super::pair::{Fate, Pair};
use super::similarity::pair_similar;
use crate::model::{Enum, FileId, Kind, Message, MessageId, Service, Symbol, Tree};
use crate::package::PackageName;

/// Characteristic of a declaration: its scope, a name or number in it, and the type of that member.
pub(super) type Characteristic<'t> = (&'t str, i32, &'t str, &'t str);

/// Common interface of messages, enums and services.
pub(super) trait Declared {
    /// Whether a declaration may move to another major. A type of another major is another type, but
    /// the calls of a service go to its new path.
    const MOVES_TO_ANY_MAJOR: bool = false;

    fn list(tree: &Tree) -> &[Self]
    where
        Self: Sized;
    /// Returns its index if `symbol` has this sort.
    fn index(symbol: Symbol) -> Option<u32>;
    fn name(&self) -> &str;
    fn parent(&self) -> Option<MessageId>;
    fn file(&self) -> FileId;
    /// Returns whether the compiler created it for a `map` field.
    fn synthetic(&self) -> bool {
        false
    }
    /// Returns its characteristics; `scope` becomes part of each.
    fn characteristics<'t>(&'t self, tree: &'t Tree, scope: &'t str) -> Vec<Characteristic<'t>>;
}

impl Declared for Message {
    fn list(tree: &Tree) -> &[Self] {
        &tree.messages
    }
    fn index(symbol: Symbol) -> Option<u32> {
        match symbol {
            Symbol::Message(id) => Some(id.0),
            _ => None,
        }
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn parent(&self) -> Option<MessageId> {
        self.parent
    }
    fn file(&self) -> FileId {
        self.file
    }
    fn synthetic(&self) -> bool {
        self.map_entry
    }
    fn characteristics<'t>(&'t self, tree: &'t Tree, scope: &'t str) -> Vec<Characteristic<'t>> {
        let kind = |kind| match kind {
            Kind::Scalar(scalar) => scalar.keyword(),
            Kind::Message(id) | Kind::Group(id) => tree[id].short_name(),
            Kind::Enum(id) => tree[id].short_name(),
        };
        let fields = self.fields.iter();
        fields
            .map(|field| (scope, field.number, &*field.name, kind(field.kind)))
            .collect()
    }
}

impl Declared for Enum {
    fn list(tree: &Tree) -> &[Self] {
        &tree.enums
    }
    fn index(symbol: Symbol) -> Option<u32> {
        match symbol {
            Symbol::Enum(id) => Some(id.0),
            _ => None,
        }
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn parent(&self) -> Option<MessageId> {
        self.parent
    }
    fn file(&self) -> FileId {
        self.file
    }
    fn characteristics<'t>(&'t self, _: &'t Tree, scope: &'t str) -> Vec<Characteristic<'t>> {
        let values = self.values.iter();
        values
            .map(|value| (scope, value.number, &*value.name, "enum value"))
            .collect()
    }
}

impl Declared for Service {
    const MOVES_TO_ANY_MAJOR: bool = true;

    fn list(tree: &Tree) -> &[Self] {
        &tree.services
    }
    fn index(symbol: Symbol) -> Option<u32> {
        match symbol {
            Symbol::Service(id) => Some(id.0),
            _ => None,
        }
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn parent(&self) -> Option<MessageId> {
        None
    }
    fn file(&self) -> FileId {
        self.file
    }
    fn characteristics<'t>(&'t self, tree: &'t Tree, scope: &'t str) -> Vec<Characteristic<'t>> {
        let methods = self.methods.iter();
        methods
            .map(|method| (scope, 0, &*method.name, tree[method.input].short_name()))
            .collect()
    }
}

/// New declaration and fate for each old declaration, by index.
pub(super) type Links = Vec<Option<(u32, Fate)>>;

/// Returns the successor of an old message.
pub(super) fn linked(links: &Links, id: MessageId) -> Option<MessageId> {
    let (new, _) = links.get(id.0 as usize).copied().flatten()?;
    Some(MessageId(new))
}

/// Links the declarations of one sort, outer ones before nested ones.
///
/// `outer` has the links of messages; it is `None` when messages themselves are linked.
pub(super) fn link<D: Declared>(
    old: &Tree,
    new: &Tree,
    carried: &HashMap<&str, &str>,
    outer: Option<&Links>,
) -> Links {
    let mut linker = Linker::<D> {
        old,
        new,
        carried,
        outer,
        links: vec![None; D::list(old).len()],
        taken: vec![false; D::list(new).len()],
        sort: PhantomData,
    };
    for level in levels::<D>(old) {
        linker.same_name(&level);
        linker.renamed(&level);
    }
    linker.moved();
    linker.links
}

/// Declaration by index, with a word that must be equal on both sides.
type Candidate<'t> = (u32, &'t str);

/// Returns the indexes of the declarations of one sort, by nesting depth.
fn levels<D: Declared>(tree: &Tree) -> Vec<Vec<u32>> {
    let mut levels: Vec<Vec<u32>> = Vec::new();
    for (index, one) in (0..).zip(D::list(tree)) {
        if one.synthetic() {
            continue;
        }
        let depth = std::iter::successors(one.parent(), |id| tree[*id].parent).count();
        if levels.len() <= depth {
            levels.resize_with(depth + 1, Vec::new);
        }
        levels[depth].push(index);
    }
    levels
}

struct Linker<'t, D> {
    old: &'t Tree,
    new: &'t Tree,
    carried: &'t HashMap<&'t str, &'t str>,
    outer: Option<&'t Links>,
    links: Links,
    taken: Vec<bool>,
    sort: PhantomData<D>,
}

impl<'t, D: Declared + 't> Linker<'t, D> {
    /// Returns the new name of the scope of an old declaration.
    fn scope(&self, one: &D) -> Option<&'t str> {
        match one.parent() {
            Some(parent) => {
                let id = linked(self.outer.unwrap_or(&self.links), parent)?;
                Some(&self.new[id].name)
            }
            None => self.carried.get(&*self.old[one.file()].package).copied(),
        }
    }

    fn join(&mut self, old: u32, new: u32, fate: Fate) {
        self.links[old as usize] = Some((new, fate));
        self.taken[new as usize] = true;
    }

    fn same_name(&mut self, level: &[u32]) {
        for &index in level {
            let one = &D::list(self.old)[index as usize];
            let Some(scope) = self.scope(one) else {
                continue;
            };
            let name = one.name();
            let symbol = if enclosing(name) == scope {
                self.new.names.get(name)
            } else {
                let name = if scope.is_empty() {
                    short(name).to_owned()
                } else {
                    format!("{scope}.{}", short(name))
                };
                self.new.names.get(&*name)
            };
            let found = symbol.copied().and_then(D::index);
            if let Some(found) = found.filter(|found| !self.taken[*found as usize]) {
                self.join(index, found, Fate::Kept);
            }
        }
    }

    /// Links unlinked declarations of a level to unlinked new ones of the same scope with similar
    /// contents.
    fn renamed(&mut self, level: &[u32]) {
        let old: Vec<_> = level
            .iter()
            .filter(|index| self.links[**index as usize].is_none())
            .filter_map(|&index| Some((index, self.scope(&D::list(self.old)[index as usize])?)))
            .collect();
        if old.is_empty() {
            return;
        }
        let new: Vec<_> = self
            .unpaired()
            .map(|(index, one)| (index, enclosing(one.name())))
            .collect();
        self.join_similar(&old, &new);
    }

    /// Links the remaining declarations by short name and contents, in any package of the same
    /// major. Declarations inside a removed one count as removed with it.
    fn moved(&mut self) {
        let mut majors: BTreeMap<Option<u32>, [Vec<Candidate<'t>>; 2]> = BTreeMap::new();
        let old = (0..)
            .zip(D::list(self.old))
            .filter(|(index, one): &(u32, _)| {
                self.links[*index as usize].is_none()
                    && !one.synthetic()
                    && self.scope(*one).is_some()
            });
        for (index, one) in old {
            let [old, _] = majors.entry(Self::major(self.old, one)).or_default();
            old.push((index, short(one.name())));
        }
        if majors.is_empty() {
            return;
        }
        for (index, one) in self.unpaired() {
            if let Some([_, new]) = majors.get_mut(&Self::major(self.new, one)) {
                new.push((index, short(one.name())));
            }
        }
        for [old, new] in majors.into_values() {
            self.join_similar(&old, &new);
        }
    }

    /// Returns the major in which the successor of a declaration must be.
    fn major(tree: &Tree, one: &D) -> Option<u32> {
        let version = PackageName::of(&tree[one.file()].package).version;
        let version = version.filter(|_| !D::MOVES_TO_ANY_MAJOR);
        version.map(|version| version.major)
    }

    /// Returns the unlinked declarations of the new tree.
    fn unpaired(&self) -> impl Iterator<Item = (u32, &'t D)> {
        (0..)
            .zip(D::list(self.new))
            .filter(|(index, one): &(u32, _)| !self.taken[*index as usize] && !one.synthetic())
    }

    /// Links similar declarations.
    fn join_similar(&mut self, old: &[Candidate<'t>], new: &[Candidate<'t>]) {
        let characteristics = |tree: &'t Tree, some: &[Candidate<'t>]| -> Vec<_> {
            some.iter()
                .map(|(index, word)| D::list(tree)[*index as usize].characteristics(tree, word))
                .collect()
        };
        for (from, to) in pair_similar(
            &characteristics(self.old, old),
            &characteristics(self.new, new),
        ) {
            self.join(old[from].0, new[to].0, Fate::Renamed);
        }
    }
}

/// Returns the pairs of one sort. Declarations inside a removed or added one are not listed.
pub(super) fn pairs<'t, D: Declared>(
    (old, new): (&'t Tree, &'t Tree),
    links: &Links,
    messages: &Links,
) -> Vec<Pair<&'t D>> {
    let mut taken = vec![false; D::list(new).len()];
    let mut pairs = Vec::with_capacity(links.len());
    for (one, link) in D::list(old).iter().zip(links) {
        if let Some((index, fate)) = *link {
            taken[index as usize] = true;
            pairs.push(Pair::Both {
                old: one,
                new: &D::list(new)[index as usize],
                fate,
            });
        } else if !one.synthetic() && one.parent().is_none_or(|id| linked(messages, id).is_some()) {
            pairs.push(Pair::Removed(one));
        }
    }
    let mut linked_to = vec![false; new.messages.len()];
    for (index, _) in messages.iter().flatten() {
        linked_to[*index as usize] = true;
    }
    for (one, taken) in D::list(new).iter().zip(taken) {
        let outermost = one.parent().is_none_or(|id| linked_to[id.0 as usize]);
        if !taken && outermost && !one.synthetic() {
            pairs.push(Pair::Added(one));
        }
    }
    pairs
}

/// Returns the scope of a name; empty at the top level.
fn enclosing(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(scope, _)| scope)
}

pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
