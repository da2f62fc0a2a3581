//! A tree of proto files as data, names resolved, options read, every element with its place.
//!
//! Elements of one sort lie in one list and refer to each other by index ([`MessageId`] …), so a
//! rule that looks at every field walks one list, and a comparison of two trees copies nothing.

mod element;
mod name;
mod options;
mod place;

use std::collections::HashMap;
use std::ops::Index;

pub use element::{
    Cardinality, Enum, EnumValue, Extension, Field, Kind, Message, Method, Oneof, Range, Scalar,
    Service,
};
pub use name::Name;
pub(crate) use name::json_name;
pub use options::Options;
pub use place::{Docs, Place, Source, Span};

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident => $list:ident: $element:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(pub u32);

        impl Index<$id> for Tree {
            type Output = $element;
            fn index(&self, id: $id) -> &$element {
                &self.$list[id.0 as usize]
            }
        }
    )*};
}

ids! {
    /// A file of a [`Tree`].
    FileId => files: File;
    /// A message of a [`Tree`], nested ones included.
    MessageId => messages: Message;
    /// An enum of a [`Tree`], nested ones included.
    EnumId => enums: Enum;
    /// A service of a [`Tree`].
    ServiceId => services: Service;
}

/// Files that compile together.
#[derive(Debug, Default)]
pub struct Tree {
    /// All files, imports before those that import them.
    pub files: Vec<File>,
    /// All messages, map entries and nested ones included.
    pub messages: Vec<Message>,
    /// All enums, nested ones included.
    pub enums: Vec<Enum>,
    /// All services.
    pub services: Vec<Service>,
    /// All extensions, those declared in messages included.
    pub extensions: Vec<Extension>,
    /// Full name (no leading dot) of every message, enum and service.
    pub names: HashMap<Name, Symbol>,
}

/// What a full name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A message.
    Message(MessageId),
    /// An enum.
    Enum(EnumId),
    /// A service.
    Service(ServiceId),
}

impl Tree {
    /// The message of that full name.
    #[must_use]
    pub fn message(&self, name: &str) -> Option<&Message> {
        match self.names.get(name)? {
            Symbol::Message(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// The enum of that full name.
    #[must_use]
    pub fn enumeration(&self, name: &str) -> Option<&Enum> {
        match self.names.get(name)? {
            Symbol::Enum(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// The service of that full name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Service> {
        match self.names.get(name)? {
            Symbol::Service(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// The file of that import path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| &*file.path == path)
    }

    /// The key and the value of a map field; none for other fields.
    #[must_use]
    pub fn map_entry(&self, field: &Field) -> Option<(&Field, &Field)> {
        match (field.cardinality, field.kind) {
            (Cardinality::Map, Kind::Message(id)) => Some((self[id].field(1)?, self[id].field(2)?)),
            _ => None,
        }
    }

    /// The files that are judged: those that were named, not those that they import from elsewhere.
    pub fn targets(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.target)
    }
}

/// The language level of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Syntax {
    /// `syntax = "proto2"`, or none.
    #[default]
    Proto2,
    /// `syntax = "proto3"`.
    Proto3,
    /// `edition = "2023"`, as its number.
    Edition(i32),
}

/// One proto file.
#[derive(Debug)]
pub struct File {
    /// Its index in [`Tree::files`].
    pub id: FileId,
    /// The path by which others import it: `envoy/type/v3/percent.proto`.
    pub path: Name,
    /// The folder, from the top of the tree, below which `path` lies: that of a module, `proto`; empty
    /// for the top.
    pub root: Name,
    /// What to show a person: a path that an editor opens, or `main:api/envoy/…` for a git ref.
    pub display: Name,
    /// Whether it is judged, or only imported by what is judged.
    pub target: bool,
    /// The package, empty when there is none.
    pub package: Name,
    /// The language level.
    pub syntax: Syntax,
    /// The imports, in order of declaration.
    pub imports: Vec<Import>,
    /// `google.protobuf.FileOptions`.
    pub options: Options,
    /// Messages at the top level, in order of declaration.
    pub messages: Vec<MessageId>,
    /// Enums at the top level, in order of declaration.
    pub enums: Vec<EnumId>,
    /// Services, in order of declaration.
    pub services: Vec<ServiceId>,
    /// The text; none when the tree came from a descriptor set.
    pub text: Option<Name>,
    /// The `package` statement, with the comments before it.
    pub package_source: Source,
    /// The `syntax` statement, with the comments before it (the licence, often).
    pub syntax_source: Source,
    /// `(path of the option in FileOptions, its source)`, in order of declaration.
    pub option_sources: Vec<(Vec<i32>, Source)>,
}

impl File {
    /// Where a path that is imported from below the file's root lies in the tree.
    #[must_use]
    pub fn place(&self, path: &str) -> String {
        match &*self.root {
            "" => path.to_owned(),
            root => format!("{root}/{path}"),
        }
    }
}

/// An `import` statement.
#[derive(Debug)]
pub struct Import {
    /// The file it names.
    pub file: FileId,
    /// How it imports.
    pub mode: ImportMode,
    /// Where it stands.
    pub source: Source,
}

/// How a file imports another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// `import "a.proto";`
    Plain,
    /// `import public "a.proto";`: those that import this file see the other as well.
    Public,
    /// `import weak "a.proto";`
    Weak,
}
