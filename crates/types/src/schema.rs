//! Schemas: the parts of a message descriptor that loading needs, compiled once per message type.
//!
//! A descriptor decodes its options on each call and counts references in memory that all threads share. A schema is
//! read-only. It is never freed, as the descriptor pool; there is at most one per message type and pool.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

use crate::lifecycle::{FieldMarks, Mark, MessageMarks};
use crate::rules::{FieldRules, MessageRules};
use crate::{ApiVersion, descriptor};

/// Schema of a message type.
#[derive(Debug)]
pub(crate) struct Message {
    /// API version of the pool that has the descriptor.
    pub(crate) api: ApiVersion,
    pub(crate) descriptor: MessageDescriptor,
    pub(crate) well_known: Option<WellKnown>,
    /// Whether this is `TypedStruct`: a `Struct` in place of the message that its type URL names.
    pub(crate) is_typed_struct: bool,
    /// Fields, sorted by number.
    pub(crate) fields: Vec<Field>,
    /// Proto and JSON names with the index into `fields`, sorted by name.
    names: Vec<(String, usize)>,
    pub(crate) rules: MessageRules,
    marks: MessageMarks,
}

/// Schema of a field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) descriptor: FieldDescriptor,
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Index of its oneof in the message, unless the oneof is synthetic.
    pub(crate) oneof: Option<usize>,
    /// Annotations that make the use of the field, or of a value of its enum, worth a finding. Most fields have none.
    pub(crate) marks: Option<Box<FieldMarks>>,
    pub(crate) rules: Option<FieldRules>,
    /// Whether the value is a secret (`udpa.annotations.sensitive`).
    pub(crate) is_sensitive: bool,
}

/// Cardinality and type of a field.
#[derive(Debug)]
pub(crate) enum Shape {
    One(Type),
    List(Type),
    Map { key: Kind, value: Type },
}

impl Shape {
    /// Returns the type of the single value, of the items, or of the map values.
    pub(crate) fn value(&self) -> &Type {
        match self {
            Shape::One(ty) | Shape::List(ty) | Shape::Map { value: ty, .. } => ty,
        }
    }
}

/// The type of one value.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    api: ApiVersion,
    message: OnceLock<&'static Message>,
}

/// Messages with a special JSON form (ProtoJSON, "Well-known types").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Any,
    /// `Struct`, `Value`, `ListValue`, `Timestamp`, `Duration`, `FieldMask`, `Empty`.
    Other,
    /// `UInt32Value` and the other wrappers of scalars.
    Wrapper,
}

/// Full names of `TypedStruct` (gRFC A39).
const TYPED_STRUCTS: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// Returns the schema of a message by full name, from the current API or else from v2.
pub(crate) fn find(full_name: &str) -> Option<&'static Message> {
    find_in(ApiVersion::V3, full_name).or_else(|| {
        // Only messages of Envoy can be in v2 alone. Other names need not build the v2 pool.
        let may_be_v2 = full_name.starts_with("envoy.");
        may_be_v2.then(|| find_in(ApiVersion::V2, full_name))?
    })
}

/// Returns the schema of a message in the pool of an API version. The v2 pool contains the v3 messages too, with
/// separate descriptors: messages of two pools must not be mixed.
pub(crate) fn find_in(api: ApiVersion, full_name: &str) -> Option<&'static Message> {
    type Schemas = RwLock<HashMap<String, &'static Message>>;
    static V2: LazyLock<Schemas> = LazyLock::new(RwLock::default);
    static V3: LazyLock<Schemas> = LazyLock::new(RwLock::default);
    let (schemas, pool) = match api {
        ApiVersion::V2 => (&V2, descriptor::v2_pool()),
        ApiVersion::V3 => (&V3, descriptor::pool()),
    };
    // No code panics under the lock, and a poisoned map is still valid.
    if let Some(schema) = schemas
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(full_name)
    {
        return Some(schema);
    }
    let compiled = Message::compile(pool.get_message_by_name(full_name)?, api);
    let mut schemas = schemas.write().unwrap_or_else(PoisonError::into_inner);
    // Two threads may have compiled the schema; the first one is kept.
    Some(
        schemas
            .entry(full_name.to_owned())
            .or_insert_with(|| Box::leak(Box::new(compiled))),
    )
}

impl Message {
    pub(crate) fn full_name(&self) -> &str {
        self.descriptor.full_name()
    }

    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        let index = self
            .fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()?;
        Some(&self.fields[index])
    }

    /// Returns the field with this proto or JSON name; ProtoJSON requires parsers to accept both.
    pub(crate) fn field_named(&self, name: &str) -> Option<&Field> {
        let index = self
            .names
            .binary_search_by(|(n, _)| n.as_str().cmp(name))
            .ok()?;
        Some(&self.fields[self.names[index].1])
    }

    /// Reports the marks that a message has whatever its set fields are: its own, and those of the deprecated values
    /// that unset fields have.
    pub(crate) fn unset_marks(
        &'static self,
        is_set: impl Fn(u32) -> bool,
        note: &mut dyn FnMut(Option<&'static str>, Mark<'static>),
    ) {
        for mark in self.marks.work_in_progress() {
            note(None, Mark::WorkInProgress(mark));
        }
        let unset = self
            .marks
            .defaults()
            .iter()
            .filter(|number| !is_set(**number));
        for field in unset.filter_map(|number| self.field(*number)) {
            let marks = field.marks.as_deref();
            if let Some(element) = marks.and_then(FieldMarks::default) {
                note(Some(&field.name), Mark::DeprecatedDefault(element));
            }
        }
    }

    fn compile(descriptor: MessageDescriptor, api: ApiVersion) -> Message {
        let fields = descriptor.fields();
        let mut fields: Vec<Field> = fields.map(|field| Field::compile(field, api)).collect();
        fields.sort_by_key(|field| field.number);
        let mut names: Vec<(String, usize)> = fields
            .iter()
            .enumerate()
            .flat_map(|(index, field)| {
                let json = field.descriptor.json_name().to_owned();
                [(field.name.clone(), index), (json, index)]
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        Message {
            api,
            well_known: WellKnown::of(descriptor.full_name()),
            is_typed_struct: TYPED_STRUCTS.contains(&descriptor.full_name()),
            rules: MessageRules::compile(
                &descriptor,
                fields
                    .iter()
                    .map(|field| (field.number, field.rules.as_ref())),
            ),
            marks: MessageMarks::compile(
                &descriptor,
                fields
                    .iter()
                    .map(|field| (field.number, field.marks.as_deref())),
            ),
            fields,
            names,
            descriptor,
        }
    }
}

impl Field {
    fn compile(descriptor: FieldDescriptor, api: ApiVersion) -> Field {
        let kind = descriptor.kind();
        let shape = match &kind {
            Kind::Message(entry) if descriptor.is_map() => Shape::Map {
                key: entry.map_entry_key_field().kind(),
                value: Type::new(entry.map_entry_value_field().kind(), api),
            },
            _ if descriptor.is_list() => Shape::List(Type::new(kind, api)),
            _ => Shape::One(Type::new(kind, api)),
        };
        let message = descriptor.parent_message();
        let oneof = descriptor
            .containing_oneof()
            .filter(|oneof| !oneof.is_synthetic())
            .and_then(|oneof| message.oneofs().position(|o| o == oneof));
        Field {
            number: descriptor.number(),
            name: descriptor.name().to_owned(),
            shape,
            oneof,
            marks: FieldMarks::compile(&descriptor),
            rules: FieldRules::compile(&descriptor),
            is_sensitive: is_sensitive(&descriptor),
            descriptor,
        }
    }
}

fn is_sensitive(descriptor: &FieldDescriptor) -> bool {
    const NAME: &str = "udpa.annotations.sensitive";
    let extension = descriptor.parent_pool().get_extension_by_name(NAME);
    extension.is_some_and(|extension| {
        let options = descriptor.options();
        options.get_extension(&extension).as_bool() == Some(true)
    })
}

impl Type {
    fn new(kind: Kind, api: ApiVersion) -> Type {
        Type {
            kind,
            api,
            message: OnceLock::new(),
        }
    }

    /// Returns the schema of a message type; `None` for scalars and enums.
    pub(crate) fn message(&self) -> Option<&'static Message> {
        let Kind::Message(descriptor) = &self.kind else {
            return None;
        };
        if let Some(message) = self.message.get() {
            return Some(message);
        }
        let message = find_in(self.api, descriptor.full_name())?;
        Some(self.message.get_or_init(|| message))
    }
}

impl WellKnown {
    fn of(full_name: &str) -> Option<WellKnown> {
        Some(match full_name.strip_prefix("google.protobuf.")? {
            "Any" => WellKnown::Any,
            "Struct" | "Value" | "ListValue" | "Timestamp" | "Duration" | "FieldMask" | "Empty" => {
                WellKnown::Other
            }
            "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value" | "UInt32Value"
            | "UInt64Value" | "BoolValue" | "StringValue" | "BytesValue" => WellKnown::Wrapper,
            _ => return None,
        })
    }
}

/// Decodes the message in an `Any`; `None` if the descriptors do not know its type, or its bytes do not decode.
pub(crate) fn unpack(any: &DynamicMessage) -> Option<(&'static Message, DynamicMessage)> {
    let (type_url, value) = (any.get_field_by_number(1)?, any.get_field_by_number(2)?);
    let schema = find(type_url.as_str()?.rsplit_once('/')?.1)?;
    let mut message = DynamicMessage::new(schema.descriptor.clone());
    message.merge(value.as_bytes()?.clone()).ok()?;
    Some((schema, message))
}
