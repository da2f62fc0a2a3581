//! A tree, and its files.

use std::collections::HashMap;
use std::ops::Index;

use super::element::{Cardinality, Enum, Extension, Field, Kind, Message, Service};
use super::id::{EnumId, FileId, MessageId, ServiceId};
use super::name::Name;
use super::options::Options;
use super::source::Source;

/// Set of files that compile together.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Tree {
    /// All files, imports before their importers.
    pub files: Vec<File>,
    /// All messages, map entries and nested ones included.
    pub messages: Vec<Message>,
    /// All enums, nested ones included.
    pub enums: Vec<Enum>,
    /// All services of all files.
    pub services: Vec<Service>,
    /// All extensions, those declared in messages included.
    pub extensions: Vec<Extension>,
    /// Every message, enum and service by full name, without a leading dot.
    pub names: HashMap<Name, Symbol>,
}

/// Target of a full name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// Message of the tree.
    Message(MessageId),
    /// Enum of the tree.
    Enum(EnumId),
    /// Service of the tree.
    Service(ServiceId),
}

impl Tree {
    /// Returns the message with that full name.
    #[must_use]
    pub fn message(&self, name: &str) -> Option<&Message> {
        match self.names.get(name)? {
            Symbol::Message(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// Returns the enum with that full name.
    #[must_use]
    pub fn enumeration(&self, name: &str) -> Option<&Enum> {
        match self.names.get(name)? {
            Symbol::Enum(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// Returns the service with that full name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Service> {
        match self.names.get(name)? {
            Symbol::Service(id) => Some(&self[*id]),
            _ => None,
        }
    }

    /// Returns the file with that import path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| &*file.path == path)
    }

    /// Returns the key and the value of a map field, or `None` for other fields.
    #[must_use]
    pub fn map_entry(&self, field: &Field) -> Option<(&Field, &Field)> {
        match (field.cardinality, field.kind) {
            (Cardinality::Map, Kind::Message(id)) => Some((self[id].field(1)?, self[id].field(2)?)),
            _ => None,
        }
    }

    /// Returns whether a file declares anything: a message, an enum, a service or an extension.
    #[must_use]
    pub fn declares(&self, file: &File) -> bool {
        let types = !file.messages.is_empty() || !file.enums.is_empty();
        let mut extensions = self.extensions.iter();
        types || !file.services.is_empty() || extensions.any(|extension| extension.file == file.id)
    }

    /// Returns the target files: those that were named, not their imports from elsewhere.
    pub fn targets(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.target)
    }
}

/// Indexing of the lists of a [`Tree`] by id.
macro_rules! index {
    ($($id:ident => $list:ident: $element:ty;)*) => {$(
        impl Index<$id> for Tree {
            type Output = $element;
            fn index(&self, id: $id) -> &$element {
                &self.$list[id.0 as usize]
            }
        }
    )*};
}

index! {
    FileId => files: File;
    MessageId => messages: Message;
    EnumId => enums: Enum;
    ServiceId => services: Service;
}

/// Language level of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Syntax {
    /// `syntax = "proto2"`, or no syntax statement.
    #[default]
    Proto2,
    /// Syntax statement `syntax = "proto3"`.
    Proto3,
    /// `edition = "2023"`, as a number.
    Edition(i32),
}

/// Proto file of a tree.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Index of this file in [`Tree::files`].
    pub id: FileId,
    /// Import path, such as `envoy/type/v3/percent.proto`.
    pub path: Name,
    /// Folder that contains `path`, from the top of the tree: a module such as `proto`; empty for
    /// the top.
    pub root: Name,
    /// Display path: a path that an editor opens, or `main:api/envoy/…` for a git ref.
    pub display: Name,
    /// Whether the rules apply to it. False for files that are only imported.
    pub target: bool,
    /// Package of the file; empty if it has none.
    pub package: Name,
    /// Language level of the file.
    pub syntax: Syntax,
    /// Imports, in order of declaration.
    pub imports: Vec<Import>,
    /// Options of the file, as `google.protobuf.FileOptions`.
    pub options: Options,
    /// Messages at the top level, in order of declaration.
    pub messages: Vec<MessageId>,
    /// Enums at the top level, in order of declaration.
    pub enums: Vec<EnumId>,
    /// Services, in order of declaration.
    pub services: Vec<ServiceId>,
    /// Text of the file; `None` if the tree came from a descriptor set.
    pub text: Option<Name>,
    /// Positions of the statements about the whole file.
    pub sources: FileSources,
}

/// Positions of the statements about a whole file.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileSources {
    /// The `package` statement, with the comments before it.
    pub package: Source,
    /// The `syntax` statement, with the comments before it (often the licence).
    pub syntax: Source,
    /// `(path of the option in FileOptions, its source)`, in order of declaration.
    pub options: Vec<(Vec<i32>, Source)>,
}

impl File {
    /// Returns the path from the top of the tree for an import path in the root of this file.
    #[must_use]
    pub fn place(&self, path: &str) -> String {
        match &*self.root {
            "" => path.to_owned(),
            root => format!("{root}/{path}"),
        }
    }
}

/// Import of a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Import {
    /// File that is imported.
    pub file: FileId,
    /// Mode of the import.
    pub mode: ImportMode,
    /// Source position and comments.
    pub source: Source,
}

/// Mode of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// `import "a.proto";`: only this file sees the imported one.
    Plain,
    /// `import public "a.proto";`: files that import this file also see the imported one.
    Public,
    /// `import weak "a.proto";`, an obsolete form.
    Weak,
}
