//! What became of each element of an old tree in a new one.
//!
//! ```text
//!   packages ─► messages ─► enums, services, extensions ─► fields, oneofs, values, methods
//!     by name, renamed: by contents                          by number and name
//! ```
//!
//! Elements are paired once, and every rule about two trees walks the pairs: the cost is that of the
//! trees, not of their product. Types are the same when they are a pair, so that renaming a message
//! does not change the type of each field that uses it.
//!
//! Listed is what is judged: elements of which the old or the new file is a target. Of something
//! removed or added, what lies in it is not listed again.

mod declared;
mod files;
mod likeness;
mod members;
mod pair;

use std::collections::HashMap;

pub use declared::Package;
use declared::{Links, linked};
use members::Side;
pub use pair::{Fate, Member, Pair};

use crate::model::{
    Enum, EnumId, EnumValue, Extension, Field, File, FileId, Kind, Message, MessageId, Method,
    Oneof, Service, ServiceId, Tree,
};

/// Two trees, and the pairs of their elements.
///
/// [`Comparison::of`] is the only way to make one, so the pairs always belong to the trees.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// As it was.
    pub old: &'a Tree,
    /// As it is.
    pub new: &'a Tree,
    /// Packages; renamed ones are found by what is in them.
    pub packages: Vec<Pair<Package<'a>>>,
    /// Files, by path; [`Fate::Renamed`] when all that was declared in one is in one new file now.
    pub files: Vec<Pair<&'a File>>,
    /// Messages, without map entries.
    pub messages: Vec<Pair<&'a Message>>,
    /// Enums.
    pub enums: Vec<Pair<&'a Enum>>,
    /// Services.
    pub services: Vec<Pair<&'a Service>>,
    /// Extensions.
    pub extensions: Vec<Pair<&'a Extension>>,
    /// Fields of messages that both have.
    pub fields: Vec<Member<'a, Message, Field>>,
    /// Oneofs of messages that both have.
    pub oneofs: Vec<Member<'a, Message, Oneof>>,
    /// Values of enums that both have.
    pub values: Vec<Member<'a, Enum, EnumValue>>,
    /// Methods of services that both have.
    pub methods: Vec<Member<'a, Service, Method>>,
    message_links: Links,
    enum_links: Links,
    service_links: Links,
    /// Oneofs that are pairs: message and index in the old tree, index in the new one.
    oneof_links: HashMap<(MessageId, usize), usize>,
}

impl<'a> Comparison<'a> {
    /// Pairs the elements of two trees.
    #[must_use]
    pub fn of(old: &'a Tree, new: &'a Tree) -> Self {
        let mut packages = declared::pair_packages(old, new);
        let carried: HashMap<&str, &str> = packages
            .iter()
            .filter_map(Pair::both)
            .map(|(old, new)| (&**old.name, &**new.name))
            .collect();
        let message_links = declared::link::<Message>(old, new, &carried, None);
        let enum_links = declared::link::<Enum>(old, new, &carried, Some(&message_links));
        let service_links = declared::link::<Service>(old, new, &carried, None);
        let trees = (old, new);
        let mut this = Comparison {
            old,
            new,
            packages: Vec::new(),
            files: files::pairs(trees, &message_links, &enum_links, &service_links),
            messages: declared::pairs(trees, &message_links, &message_links),
            enums: declared::pairs(trees, &enum_links, &message_links),
            services: declared::pairs(trees, &service_links, &message_links),
            extensions: Vec::new(),
            fields: Vec::new(),
            oneofs: Vec::new(),
            values: Vec::new(),
            methods: Vec::new(),
            message_links,
            enum_links,
            service_links,
            oneof_links: HashMap::new(),
        };
        packages
            .retain(|pair| judged(pair, |one| has_target(old, one), |one| has_target(new, one)));
        this.packages = packages;
        this.extensions = this.pair_extensions(&carried);
        this.keep_judged();
        this.pair_members();
        this
    }

    /// Leaves out what neither tree is judged by.
    fn keep_judged(&mut self) {
        let (old, new) = (self.old, self.new);
        let was = |file: FileId| old[file].target;
        let is = |file: FileId| new[file].target;
        self.files
            .retain(|pair| judged(pair, |one| one.target, |one| one.target));
        self.messages
            .retain(|pair| judged(pair, |one| was(one.file), |one| is(one.file)));
        self.enums
            .retain(|pair| judged(pair, |one| was(one.file), |one| is(one.file)));
        self.services
            .retain(|pair| judged(pair, |one| was(one.file), |one| is(one.file)));
        self.extensions
            .retain(|pair| judged(pair, |one| was(one.file), |one| is(one.file)));
    }

    fn pair_members(&mut self) {
        for (old, new) in self.messages.iter().filter_map(Pair::both) {
            let same_type = |old: &Field, new: &Field| self.same_type(old, new);
            let fields = members::numbered(&old.fields, &new.fields, same_type);
            let oneofs = oneofs(old, new, &fields);
            for (was, is) in oneofs.iter().filter_map(Pair::both) {
                let index =
                    |all: &[Oneof], one| all.iter().position(|other| std::ptr::eq(other, one));
                if let (Some(was), Some(is)) = (index(&old.oneofs, was), index(&new.oneofs, is)) {
                    self.oneof_links.insert((old.id, was), is);
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

    /// Extensions have the identity of their name, then that of the message and number they extend.
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

    /// What a method takes and gives, in terms of the new tree.
    fn signature(&self, method: &Method, side: Side) -> Option<(u32, u32, bool, bool)> {
        let message = |id| match side {
            Side::Old => self.new_message(id),
            Side::New => Some(id),
        };
        let (input, output) = (message(method.input)?, message(method.output)?);
        let (client, server) = (method.client_streaming, method.server_streaming);
        Some((input.0, output.0, client, server))
    }

    /// What a message of the old tree became.
    #[must_use]
    pub fn new_message(&self, old: MessageId) -> Option<MessageId> {
        linked(&self.message_links, old)
    }

    /// What an enum of the old tree became.
    #[must_use]
    pub fn new_enum(&self, old: EnumId) -> Option<EnumId> {
        let (new, _) = self.enum_links.get(old.0 as usize).copied().flatten()?;
        Some(EnumId(new))
    }

    /// What a service of the old tree became.
    #[must_use]
    pub fn new_service(&self, old: ServiceId) -> Option<ServiceId> {
        let (new, _) = self.service_links.get(old.0 as usize).copied().flatten()?;
        Some(ServiceId(new))
    }

    /// What a oneof of a message of the old tree became, as an index of the new message's.
    #[must_use]
    pub fn new_oneof(&self, message: MessageId, index: usize) -> Option<usize> {
        self.oneof_links.get(&(message, index)).copied()
    }

    /// Whether two types are the same, seen through renames.
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

    /// Whether two fields have the same type; maps have when their keys and values have.
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

/// Oneofs: by name, then renamed when a field that is still in a oneof says so.
fn oneofs<'a>(
    old: &'a Message,
    new: &'a Message,
    fields: &[Pair<&'a Field>],
) -> Vec<Pair<&'a Oneof>> {
    let mut pairing = members::Pairing::new(&old.oneofs, &new.oneofs);
    pairing.by(|one| &*one.name, |_, _| Fate::Kept);
    for (was, is) in fields.iter().filter_map(Pair::both) {
        if let (Some(was), Some(is)) = (was.oneof, is.oneof) {
            pairing.set_alone(was, is, Fate::Renamed);
        }
    }
    pairing.finish()
}

/// Whether either side of a pair is judged.
fn judged<T: Copy>(pair: &Pair<T>, old: impl Fn(T) -> bool, new: impl Fn(T) -> bool) -> bool {
    pair.was().is_some_and(old) || pair.is().is_some_and(new)
}

fn has_target(tree: &Tree, package: Package<'_>) -> bool {
    tree.targets().any(|file| file.package == *package.name)
}
