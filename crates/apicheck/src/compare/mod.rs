//! Comparison of two trees: each element of the old tree is paired with its successor in the new
//! tree.
//!
//! ```text
//!   packages ─► messages ─► enums, services, extensions ─► fields, oneofs, values, methods
//!     by name, renamed: by contents                          by number and name
//! ```
//!
//! Elements are paired once, and every rule about two trees iterates over the pairs. The cost grows
//! with the size of the trees, not with their product. Types are equal if they are paired, so a
//! renamed message does not change the type of the fields that use it.
//!
//! Only elements in target files of the old or the new tree are listed. Elements inside a removed
//! or added one are not listed.

mod declared;
mod files;
mod members;
mod packages;
mod pair;
mod similarity;

use std::collections::HashMap;

use declared::{Links, linked};
use members::Side;
pub use packages::ComparedPackage;
pub use pair::{Fate, Member, Pair};

use crate::model::{
    Enum, EnumId, EnumValue, Extension, Field, File, FileId, Kind, Message, MessageId, Method,
    Oneof, Service, ServiceId, Tree,
};

/// Two trees, and the pairs of their elements.
///
/// [`Comparison::of`] is the only constructor, so the pairs always belong to the trees.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison<'a> {
    /// Tree before the change.
    pub old: &'a Tree,
    /// Tree after the change.
    pub new: &'a Tree,
    /// Packages; renamed ones are found by their contents.
    pub packages: Vec<Pair<ComparedPackage<'a>>>,
    /// Files, by path. A file is [`Fate::Renamed`] if all its declarations are now in one new file.
    pub files: Vec<Pair<&'a File>>,
    /// Messages, except map entries.
    pub messages: Vec<Pair<&'a Message>>,
    /// Enums of all levels.
    pub enums: Vec<Pair<&'a Enum>>,
    /// Services of all files.
    pub services: Vec<Pair<&'a Service>>,
    /// Extensions of all files.
    pub extensions: Vec<Pair<&'a Extension>>,
    /// Fields of messages that both trees contain.
    pub fields: Vec<Member<'a, Message, Field>>,
    /// Oneofs of messages that both trees contain.
    pub oneofs: Vec<Member<'a, Message, Oneof>>,
    /// Values of enums that both trees contain.
    pub values: Vec<Member<'a, Enum, EnumValue>>,
    /// Methods of services that both trees contain.
    pub methods: Vec<Member<'a, Service, Method>>,
    successors: Successors,
}

/// Successors of the old elements.
#[derive(Debug)]
struct Successors {
    files: HashMap<FileId, FileId>,
    messages: Links,
    enums: Links,
    services: Links,
    /// `(old message, old index)` to new index.
    oneofs: HashMap<(MessageId, usize), usize>,
}

impl<'a> Comparison<'a> {
    /// Pairs the elements of two trees.
    #[must_use]
    pub fn of(old: &'a Tree, new: &'a Tree) -> Self {
        let mut package_pairs = packages::pairs(old, new);
        let carried: HashMap<&str, &str> = package_pairs
            .iter()
            .filter_map(Pair::both)
            .map(|(old, new)| (&**old.name, &**new.name))
            .collect();
        let message_links = declared::link::<Message>(old, new, &carried, None);
        let enum_links = declared::link::<Enum>(old, new, &carried, Some(&message_links));
        let service_links = declared::link::<Service>(old, new, &carried, None);
        let trees = (old, new);
        let files = files::pairs(trees, &message_links, &enum_links, &service_links);
        let file_links = files.iter().filter_map(Pair::both);
        let file_links = file_links.map(|(old, new)| (old.id, new.id)).collect();
        let mut this = Comparison {
            old,
            new,
            packages: Vec::new(),
            files,
            messages: declared::pairs(trees, &message_links, &message_links),
            enums: declared::pairs(trees, &enum_links, &message_links),
            services: declared::pairs(trees, &service_links, &message_links),
            extensions: Vec::new(),
            fields: Vec::new(),
            oneofs: Vec::new(),
            values: Vec::new(),
            methods: Vec::new(),
            successors: Successors {
                files: file_links,
                messages: message_links,
                enums: enum_links,
                services: service_links,
                oneofs: HashMap::new(),
            },
        };
        package_pairs.retain(|pair| {
            has_target_side(pair, |one| has_target(old, one), |one| has_target(new, one))
        });
        this.packages = package_pairs;
        this.extensions = this.pair_extensions(&carried);
        this.keep_targets();
        this.pair_members();
        this
    }

    /// Drops the pairs in which neither side is a target.
    fn keep_targets(&mut self) {
        let (old, new) = (self.old, self.new);
        let earlier = |file: FileId| old[file].target;
        let current = |file: FileId| new[file].target;
        self.files
            .retain(|pair| has_target_side(pair, |one| one.target, |one| one.target));
        self.messages
            .retain(|pair| has_target_side(pair, |one| earlier(one.file), |one| current(one.file)));
        self.enums
            .retain(|pair| has_target_side(pair, |one| earlier(one.file), |one| current(one.file)));
        self.services
            .retain(|pair| has_target_side(pair, |one| earlier(one.file), |one| current(one.file)));
        self.extensions
            .retain(|pair| has_target_side(pair, |one| earlier(one.file), |one| current(one.file)));
    }

    fn pair_members(&mut self) {
        for (old, new) in self.messages.iter().filter_map(Pair::both) {
            let same_type = |old: &Field, new: &Field| self.same_type(old, new);
            let fields = members::numbered(&old.fields, &new.fields, same_type);
            let oneofs = oneofs(old, new, &fields);
            for (earlier, current) in oneofs.iter().filter_map(Pair::both) {
                let index =
                    |all: &[Oneof], one| all.iter().position(|other| std::ptr::eq(other, one));
                if let (Some(earlier), Some(current)) =
                    (index(&old.oneofs, earlier), index(&new.oneofs, current))
                {
                    self.successors.oneofs.insert((old.id, earlier), current);
                }
            }
            self.fields.extend(fields.into_iter().map(member(old, new)));
            self.oneofs.extend(oneofs.into_iter().map(member(old, new)));
        }
        for (old, new) in self.enums.iter().filter_map(Pair::both) {
            let values = members::numbered(&old.values, &new.values, |_, _| true);
            self.values.extend(values.into_iter().map(member(old, new)));
        }
        for (old, new) in self.services.iter().filter_map(Pair::both) {
            let signature = |method: &Method, side| self.signature(method, side);
            let methods = members::methods(&old.methods, &new.methods, signature);
            self.methods
                .extend(methods.into_iter().map(member(old, new)));
        }
    }

    /// Pairs extensions by name, then by extended message and number.
    fn pair_extensions(&self, carried: &HashMap<&str, &str>) -> Vec<Pair<&'a Extension>> {
        let mut pairing = members::Pairing::new(&self.old.extensions, &self.new.extensions);
        let old_name = |one: &Extension| {
            let package = &self.old[one.file].package;
            match carried.get(&**package) {
                Some(new) if *new != &**package => one.name.replacen(&**package, new, 1),
                _ => one.name.to_string(),
            }
        };
        pairing.by_each(old_name, |one| one.name.to_string(), Fate::Kept);
        pairing.by_each(
            |one| (self.new_message(one.extendee), one.field.number),
            |one| (Some(one.extendee), one.field.number),
            Fate::Renamed,
        );
        pairing.finish()
    }

    /// Returns the types and streaming modes of a method, in terms of the new tree.
    fn signature(&self, method: &Method, side: Side) -> Option<(u32, u32, bool, bool)> {
        let message = |id| match side {
            Side::Old => self.new_message(id),
            Side::New => Some(id),
        };
        let (input, output) = (message(method.input)?, message(method.output)?);
        let (client, server) = (method.client_streaming, method.server_streaming);
        Some((input.0, output.0, client, server))
    }

    /// Returns the successor of an old file.
    #[must_use]
    pub fn new_file(&self, old: FileId) -> Option<FileId> {
        self.successors.files.get(&old).copied()
    }

    /// Returns the successor of an old message.
    #[must_use]
    pub fn new_message(&self, old: MessageId) -> Option<MessageId> {
        linked(&self.successors.messages, old)
    }

    /// Returns the successor of an old enum.
    #[must_use]
    pub fn new_enum(&self, old: EnumId) -> Option<EnumId> {
        let (new, _) = self
            .successors
            .enums
            .get(old.0 as usize)
            .copied()
            .flatten()?;
        Some(EnumId(new))
    }

    /// Returns the successor of an old service.
    #[must_use]
    pub fn new_service(&self, old: ServiceId) -> Option<ServiceId> {
        let (new, _) = self
            .successors
            .services
            .get(old.0 as usize)
            .copied()
            .flatten()?;
        Some(ServiceId(new))
    }

    /// Returns the successor of a oneof of an old message, as an index into the new message's
    /// oneofs.
    #[must_use]
    pub fn new_oneof(&self, message: MessageId, index: usize) -> Option<usize> {
        self.successors.oneofs.get(&(message, index)).copied()
    }

    /// Returns whether two types are equal; renamed types count as equal.
    #[must_use]
    pub fn same_kind(&self, old: Kind, new: Kind) -> bool {
        match (old, new) {
            (Kind::Scalar(old), Kind::Scalar(new)) => old == new,
            (Kind::Message(old), Kind::Message(new)) | (Kind::Group(old), Kind::Group(new)) => {
                self.new_message(old) == Some(new)
            }
            (Kind::Enum(old), Kind::Enum(new)) => self.new_enum(old) == Some(new),
            _ => false,
        }
    }

    /// Returns whether two fields have the same type. Map fields are compared by key and value
    /// type.
    #[must_use]
    pub fn same_type(&self, old: &Field, new: &Field) -> bool {
        match (self.old.map_entry(old), self.new.map_entry(new)) {
            (Some((old_key, old_value)), Some((new_key, new_value))) => {
                self.same_kind(old_key.kind, new_key.kind)
                    && self.same_kind(old_value.kind, new_value.kind)
            }
            (None, None) => self.same_kind(old.kind, new.kind),
            _ => false,
        }
    }
}

fn member<'a, O, T>(
    old_owner: &'a O,
    new_owner: &'a O,
) -> impl Fn(Pair<&'a T>) -> Member<'a, O, T> {
    move |pair| Member {
        old_owner,
        new_owner,
        pair,
    }
}

/// Pairs oneofs by name, then by a common field (renamed).
fn oneofs<'a>(
    old: &'a Message,
    new: &'a Message,
    fields: &[Pair<&'a Field>],
) -> Vec<Pair<&'a Oneof>> {
    let mut pairing = members::Pairing::new(&old.oneofs, &new.oneofs);
    pairing.by(|one| &*one.name, |_, _| Fate::Kept);
    for (earlier, current) in fields.iter().filter_map(Pair::both) {
        if let (Some(earlier), Some(current)) = (earlier.oneof, current.oneof) {
            pairing.set_unpaired(earlier, current, Fate::Renamed);
        }
    }
    pairing.finish()
}

/// Returns whether one side of a pair is a target.
fn has_target_side<T: Copy>(
    pair: &Pair<T>,
    old: impl Fn(T) -> bool,
    new: impl Fn(T) -> bool,
) -> bool {
    pair.before().is_some_and(old) || pair.after().is_some_and(new)
}

fn has_target(tree: &Tree, package: ComparedPackage<'_>) -> bool {
    tree.targets().any(|file| file.package == *package.name)
}
