//! What loading needs to know of a message type, compiled once from its descriptor.
//!
//! Descriptors answer by decoding options anew at each question, and by counting references that
//! all threads share. A schema is read-only and lives for good, as the pool does; there is at
//! most one per message type of the pool.

use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::descriptor;
use crate::validate::rules::{FieldRules, MessageRules};

/// A message type.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) descriptor: MessageDescriptor,
    pub(crate) well_known: Option<WellKnown>,
    /// By number.
    pub(crate) fields: Vec<Field>,
    /// Proto and JSON names to indexes of `fields`, sorted.
    names: Vec<(String, usize)>,
    pub(crate) rules: MessageRules,
}

/// A field of a message type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) descriptor: FieldDescriptor,
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Index of the oneof it is in, unless synthetic.
    pub(crate) oneof: Option<usize>,
    pub(crate) deprecated: bool,
    pub(crate) rules: Option<FieldRules>,
}

/// How often a field's value occurs.
#[derive(Debug)]
pub(crate) enum Shape {
    One(Type),
    List(Type),
    Map { key: Kind, value: Type },
}

/// The type of one value.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    message: OnceLock<&'static Message>,
}

/// Messages with a JSON form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Any,
    /// `Struct`, `Value`, `ListValue`, `Timestamp`, `Duration`, `FieldMask`, `Empty`.
    Other,
    /// `UInt32Value` and its like.
    Wrapper,
}

/// The schema of a message of the pool, by full name. What v2 calls by another name is found
/// under that name, too: v2 bodies are read as v3.
pub(crate) fn find(full_name: &str) -> Option<&'static Message> {
    static SCHEMAS: OnceLock<RwLock<HashMap<String, &'static Message>>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(RwLock::default);
    // Nothing panics while holding the lock; a poisoned map is still a map.
    if let Some(schema) = schemas
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(full_name)
    {
        return Some(schema);
    }
    let descriptor = descriptor::message(full_name).or_else(|| successor(full_name))?;
    let compiled = Message::compile(descriptor);
    let mut schemas = schemas.write().unwrap_or_else(PoisonError::into_inner);
    // Two threads may have compiled it; the first to come here wins.
    Some(
        schemas
            .entry(full_name.to_owned())
            .or_insert_with(|| Box::leak(Box::new(compiled))),
    )
}

/// The message that took the place of one that is gone, by the API's own record
/// (`udpa.annotations.versioning`).
fn successor(full_name: &str) -> Option<MessageDescriptor> {
    static SUCCESSORS: OnceLock<HashMap<String, MessageDescriptor>> = OnceLock::new();
    let successors = SUCCESSORS.get_or_init(|| {
        descriptor::pool()
            .all_messages()
            .filter_map(|m| Some((predecessor(&m)?, m)))
            .collect()
    });
    successors.get(full_name).cloned()
}

fn predecessor(message: &MessageDescriptor) -> Option<String> {
    let extension = descriptor::pool().get_extension_by_name("udpa.annotations.versioning")?;
    let options = message.options();
    let versioning = options.get_extension(&extension);
    let previous = versioning
        .as_message()?
        .get_field_by_name("previous_message_type")?;
    previous
        .as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
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

    /// By proto or JSON name, as the JSON mapping asks of parsers.
    pub(crate) fn field_named(&self, name: &str) -> Option<&Field> {
        let index = self
            .names
            .binary_search_by(|(n, _)| n.as_str().cmp(name))
            .ok()?;
        Some(&self.fields[self.names[index].1])
    }

    fn compile(descriptor: MessageDescriptor) -> Message {
        let mut fields: Vec<Field> = descriptor.fields().map(Field::compile).collect();
        fields.sort_by_key(|field| field.number);
        let mut names: Vec<(String, usize)> = fields
            .iter()
            .enumerate()
            .flat_map(|(index, field)| {
                let json = field.descriptor.json_name().to_owned();
                [(field.name.clone(), index), (json, index)]
            })
            .collect();
        names.sort();
        names.dedup();
        Message {
            well_known: WellKnown::of(descriptor.full_name()),
            rules: MessageRules::compile(&descriptor, &fields),
            fields,
            names,
            descriptor,
        }
    }
}

impl Field {
    fn compile(descriptor: FieldDescriptor) -> Field {
        let kind = descriptor.kind();
        let shape = match &kind {
            Kind::Message(entry) if descriptor.is_map() => Shape::Map {
                key: entry.map_entry_key_field().kind(),
                value: Type::new(entry.map_entry_value_field().kind()),
            },
            _ if descriptor.is_list() => Shape::List(Type::new(kind)),
            _ => Shape::One(Type::new(kind)),
        };
        let options = descriptor.field_descriptor_proto().options.as_ref();
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
            deprecated: options.is_some_and(prost_reflect::prost_types::FieldOptions::deprecated),
            rules: FieldRules::compile(&descriptor),
            descriptor,
        }
    }
}

impl Type {
    fn new(kind: Kind) -> Type {
        Type {
            kind,
            message: OnceLock::new(),
        }
    }

    /// The schema of the message that a value is; `None` for scalars and enums.
    pub(crate) fn message(&self) -> Option<&'static Message> {
        let Kind::Message(descriptor) = &self.kind else {
            return None;
        };
        if let Some(message) = self.message.get() {
            return Some(message);
        }
        let message = find(descriptor.full_name())?;
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
