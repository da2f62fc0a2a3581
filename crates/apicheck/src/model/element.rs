//! Messages, fields, enums and services.

use super::{Docs, EnumId, FileId, MessageId, Name, Options, ServiceId, Source};

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its index in [`Tree::messages`](super::Tree::messages).
    pub id: MessageId,
    /// The file it is declared in.
    pub file: FileId,
    /// The message it is declared in.
    pub parent: Option<MessageId>,
    /// Full name, no leading dot.
    pub name: Name,
    /// Fields, in order of declaration.
    pub fields: Vec<Field>,
    /// Oneofs, in order of declaration, without those made up for `optional`.
    pub oneofs: Vec<Oneof>,
    /// Messages declared in it, map entries included.
    pub messages: Vec<MessageId>,
    /// Enums declared in it.
    pub enums: Vec<EnumId>,
    /// Numbers that must not be used.
    pub reserved: Vec<Range>,
    /// Names that must not be used.
    pub reserved_names: Vec<Name>,
    /// Comments of the `reserved` statements.
    pub reserved_docs: Vec<Docs>,
    /// Numbers left to extensions.
    pub extension_ranges: Vec<Range>,
    /// Comments of the `extensions` statements.
    pub extensions_docs: Vec<Docs>,
    /// Whether it was made up for a `map` field.
    pub map_entry: bool,
    /// `google.protobuf.MessageOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

impl Message {
    /// The name without package and outer messages.
    #[must_use]
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }

    /// The field of that number.
    #[must_use]
    pub fn field(&self, number: i32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// The field of that name.
    #[must_use]
    pub fn field_by_name(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }

    /// Whether a number is reserved.
    #[must_use]
    pub fn reserves(&self, number: i32) -> bool {
        self.reserved.iter().any(|range| range.contains(number))
    }
}

/// Numbers from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first number.
    pub first: i32,
    /// The last number.
    pub last: i32,
}

impl Range {
    /// Whether `number` is one of them.
    #[must_use]
    pub fn contains(&self, number: i32) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// The name, without that of its message.
    pub name: Name,
    /// The number.
    pub number: i32,
    /// The name in JSON, given or derived.
    pub json_name: Name,
    /// The type.
    pub kind: Kind,
    /// How many values it may have, and whether an unset one can be told from a zero.
    pub cardinality: Cardinality,
    /// The oneof it belongs to, as an index of [`Message::oneofs`].
    pub oneof: Option<usize>,
    /// Whether repeated numbers are written packed, after the defaults of the language level.
    pub packed: bool,
    /// The default value of proto2, as written in descriptors.
    pub default: Option<Name>,
    /// `google.protobuf.FieldOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

/// How many values a field may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cardinality {
    /// proto3 without label: unset and zero are the same.
    Implicit,
    /// `optional`, a member of a oneof, a message: unset can be told from zero.
    Explicit,
    /// proto2 `required`.
    Required,
    /// `repeated`.
    Repeated,
    /// `map<K, V>`; the kind is the entry message.
    Map,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A number, bool, string or bytes.
    Scalar(Scalar),
    /// A message, length-delimited.
    Message(MessageId),
    /// A message, between group tags (proto2 `group`, editions `DELIMITED`).
    Group(MessageId),
    /// An enum.
    Enum(EnumId),
}

/// The scalar types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the language")]
pub enum Scalar {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    String,
    Bytes,
    Uint32,
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
}

impl Scalar {
    /// Its name in the language: `sfixed32`.
    #[must_use]
    pub fn keyword(self) -> &'static str {
        match self {
            Scalar::Double => "double",
            Scalar::Float => "float",
            Scalar::Int64 => "int64",
            Scalar::Uint64 => "uint64",
            Scalar::Int32 => "int32",
            Scalar::Fixed64 => "fixed64",
            Scalar::Fixed32 => "fixed32",
            Scalar::Bool => "bool",
            Scalar::String => "string",
            Scalar::Bytes => "bytes",
            Scalar::Uint32 => "uint32",
            Scalar::Sfixed32 => "sfixed32",
            Scalar::Sfixed64 => "sfixed64",
            Scalar::Sint32 => "sint32",
            Scalar::Sint64 => "sint64",
        }
    }
}

/// A `oneof` of a message.
#[derive(Debug)]
pub struct Oneof {
    /// The name, without that of its message.
    pub name: Name,
    /// `google.protobuf.OneofOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// Its index in [`Tree::enums`](super::Tree::enums).
    pub id: EnumId,
    /// The file it is declared in.
    pub file: FileId,
    /// The message it is declared in.
    pub parent: Option<MessageId>,
    /// Full name, no leading dot.
    pub name: Name,
    /// Values, in order of declaration.
    pub values: Vec<EnumValue>,
    /// Numbers that must not be used.
    pub reserved: Vec<Range>,
    /// Names that must not be used.
    pub reserved_names: Vec<Name>,
    /// Comments of the `reserved` statements.
    pub reserved_docs: Vec<Docs>,
    /// Whether readers refuse numbers they do not know (proto2, editions `CLOSED`).
    pub closed: bool,
    /// `google.protobuf.EnumOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

impl Enum {
    /// The name without package and outer messages.
    #[must_use]
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }
}

/// A value of an enum.
#[derive(Debug)]
pub struct EnumValue {
    /// The name, without package.
    pub name: Name,
    /// The number.
    pub number: i32,
    /// `google.protobuf.EnumValueOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

/// A service.
#[derive(Debug)]
pub struct Service {
    /// Its index in [`Tree::services`](super::Tree::services).
    pub id: ServiceId,
    /// The file it is declared in.
    pub file: FileId,
    /// Full name, no leading dot.
    pub name: Name,
    /// Methods, in order of declaration.
    pub methods: Vec<Method>,
    /// `google.protobuf.ServiceOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

/// A method of a service.
#[derive(Debug)]
pub struct Method {
    /// The name, without that of its service.
    pub name: Name,
    /// What is asked.
    pub input: MessageId,
    /// What is answered.
    pub output: MessageId,
    /// Whether the client sends many.
    pub client_streaming: bool,
    /// Whether the server sends many.
    pub server_streaming: bool,
    /// `google.protobuf.MethodOptions`.
    pub options: Options,
    /// Where it stands.
    pub source: Source,
}

/// An extension: a field that one file adds to a message of another.
#[derive(Debug)]
pub struct Extension {
    /// The file it is declared in.
    pub file: FileId,
    /// The message it is declared in.
    pub parent: Option<MessageId>,
    /// Full name, no leading dot.
    pub name: Name,
    /// The message it extends.
    pub extendee: MessageId,
    /// The field; its name is the short one.
    pub field: Field,
    /// Comments of the `extend` block, with its first extension.
    pub block_docs: Option<Docs>,
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
