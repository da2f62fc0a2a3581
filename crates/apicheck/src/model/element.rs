//! Messages, fields, enums, services and extensions.

use super::id::{EnumId, FileId, MessageId, ServiceId};
use super::name::Name;
use super::options::Options;
use super::source::{Docs, Source};

/// Message with its fields and nested declarations.
#[derive(Debug)]
#[non_exhaustive]
pub struct Message {
    /// Index of this message in [`Tree::messages`](super::Tree::messages).
    pub id: MessageId,
    /// File with the declaration.
    pub file: FileId,
    /// Enclosing message; `None` at the top level.
    pub parent: Option<MessageId>,
    /// Full name without a leading dot.
    pub name: Name,
    /// Fields, in order of declaration.
    pub fields: Vec<Field>,
    /// Oneofs, in order of declaration, without the synthetic ones of `optional`.
    pub oneofs: Vec<Oneof>,
    /// Nested messages, map entries included.
    pub messages: Vec<MessageId>,
    /// Enums declared in this message.
    pub enums: Vec<EnumId>,
    /// The `reserved` statements.
    pub reserved: Reserved,
    /// Numbers of the `extensions` statements.
    pub extension_ranges: Vec<NumberRange>,
    /// Options of each of `extension_ranges`, as `google.protobuf.ExtensionRangeOptions`.
    pub extension_options: Vec<Options>,
    /// Comments of the `extensions` statements.
    pub extensions_docs: Vec<Docs>,
    /// Whether the compiler created it for a `map` field.
    pub map_entry: bool,
    /// Options of the message, as `google.protobuf.MessageOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

impl Message {
    /// Returns the name without package and enclosing messages.
    #[must_use]
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }

    /// Returns the field with that number.
    #[must_use]
    pub fn field(&self, number: i32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// Returns the field with that name.
    #[must_use]
    pub fn field_by_name(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }

    /// Returns whether a number is reserved.
    #[must_use]
    pub fn reserves(&self, number: i32) -> bool {
        self.reserved
            .numbers
            .iter()
            .any(|range| range.contains(number))
    }
}

/// The `reserved` statements of a message or an enum.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Reserved {
    /// Reserved numbers.
    pub numbers: Vec<NumberRange>,
    /// Reserved names.
    pub names: Vec<Name>,
    /// Comments of the statements.
    pub docs: Vec<Docs>,
}

/// Range of numbers from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumberRange {
    /// First number of the range.
    pub first: i32,
    /// Last number of the range, included.
    pub last: i32,
}

impl NumberRange {
    /// Returns whether `number` is in the range.
    #[must_use]
    pub fn contains(&self, number: i32) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// Field of a message.
#[derive(Debug)]
#[non_exhaustive]
pub struct Field {
    /// Name without that of its message.
    pub name: Name,
    /// Field number on the wire.
    pub number: i32,
    /// JSON name, explicit or derived.
    pub json_name: Name,
    /// Type of a single value.
    pub kind: Kind,
    /// Number of values, and whether an unset value differs from zero.
    pub cardinality: Cardinality,
    /// The oneof of the field, as an index into [`Message::oneofs`].
    pub oneof: Option<usize>,
    /// Whether repeated numbers are packed, including the default of the language level.
    pub packed: bool,
    /// Default value of proto2, as encoded in descriptors.
    pub default: Option<Name>,
    /// Options of the field, as `google.protobuf.FieldOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

/// Number of values of a field, and presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cardinality {
    /// proto3 field without a label: unset equals zero.
    Implicit,
    /// `optional` field, oneof member or message: unset differs from zero.
    Explicit,
    /// `required` field of proto2.
    Required,
    /// `repeated` field: any number of values.
    Repeated,
    /// `map<K, V>` field; its type is the entry message.
    Map,
}

/// Type of a single value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Number, bool, string or bytes.
    Scalar(Scalar),
    /// Message with a length prefix.
    Message(MessageId),
    /// Message between group tags (proto2 `group`, editions `DELIMITED`).
    Group(MessageId),
    /// Enum of the tree.
    Enum(EnumId),
}

/// Scalar types of protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are the names of the types")]
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
    const ALL: [Scalar; 15] = [
        Scalar::Double,
        Scalar::Float,
        Scalar::Int64,
        Scalar::Uint64,
        Scalar::Int32,
        Scalar::Fixed64,
        Scalar::Fixed32,
        Scalar::Bool,
        Scalar::String,
        Scalar::Bytes,
        Scalar::Uint32,
        Scalar::Sfixed32,
        Scalar::Sfixed64,
        Scalar::Sint32,
        Scalar::Sint64,
    ];

    /// Returns the type with that name in proto files.
    #[must_use]
    pub fn of_keyword(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|one| one.keyword() == name)
    }

    /// Returns the name in proto files: `sfixed32`.
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

/// Oneof of a message.
#[derive(Debug)]
#[non_exhaustive]
pub struct Oneof {
    /// Name without that of its message.
    pub name: Name,
    /// Options of the oneof, as `google.protobuf.OneofOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

/// Enum with its values.
#[derive(Debug)]
#[non_exhaustive]
pub struct Enum {
    /// Index of this enum in [`Tree::enums`](super::Tree::enums).
    pub id: EnumId,
    /// File with the declaration.
    pub file: FileId,
    /// Enclosing message; `None` at the top level.
    pub parent: Option<MessageId>,
    /// Full name without a leading dot.
    pub name: Name,
    /// Values, in order of declaration.
    pub values: Vec<EnumValue>,
    /// The `reserved` statements.
    pub reserved: Reserved,
    /// Whether readers treat unknown numbers as unknown fields (proto2, editions `CLOSED`).
    pub closed: bool,
    /// Options of the enum, as `google.protobuf.EnumOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

impl Enum {
    /// Returns the name without package and enclosing messages.
    #[must_use]
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }
}

/// Value of an enum.
#[derive(Debug)]
#[non_exhaustive]
pub struct EnumValue {
    /// Name without the package.
    pub name: Name,
    /// Number on the wire.
    pub number: i32,
    /// Options of the value, as `google.protobuf.EnumValueOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

/// Service with its methods.
#[derive(Debug)]
#[non_exhaustive]
pub struct Service {
    /// Index of this service in [`Tree::services`](super::Tree::services).
    pub id: ServiceId,
    /// File with the declaration.
    pub file: FileId,
    /// Full name without a leading dot.
    pub name: Name,
    /// Methods, in order of declaration.
    pub methods: Vec<Method>,
    /// Options of the service, as `google.protobuf.ServiceOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

/// Method of a service.
#[derive(Debug)]
#[non_exhaustive]
pub struct Method {
    /// Name without that of its service.
    pub name: Name,
    /// Type of the request.
    pub input: MessageId,
    /// Type of the response.
    pub output: MessageId,
    /// Whether the client sends a stream.
    pub client_streaming: bool,
    /// Whether the server sends a stream.
    pub server_streaming: bool,
    /// Options of the method, as `google.protobuf.MethodOptions`.
    pub options: Options,
    /// Source position and comments.
    pub source: Source,
}

/// Extension: a field that one file adds to a message of another.
#[derive(Debug)]
#[non_exhaustive]
pub struct Extension {
    /// File with the declaration.
    pub file: FileId,
    /// Enclosing message; `None` at the top level.
    pub parent: Option<MessageId>,
    /// Full name without a leading dot.
    pub name: Name,
    /// Message that gets the field.
    pub extendee: MessageId,
    /// The field. Its name is the short name.
    pub field: Field,
    /// Comments of the `extend` block, stored with its first extension.
    pub block_docs: Option<Docs>,
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
