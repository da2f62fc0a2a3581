//! What loading needs to know of a message type, compiled once from its descriptor.
//!
//! Descriptors answer by decoding options anew at each question, and by counting references that
//! all threads share. A schema is read-only and lives for good, as the pool does; there is at
//! most one per message type of the pool.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::validate::rules::{FieldRules, MessageRules};
use crate::{ApiVersion, descriptor};

/// A message type.
#[derive(Debug)]
pub(crate) struct Message {
    /// Whose pool it is of.
    pub(crate) api: ApiVersion,
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

impl Shape {
    /// The type of the value, of those of a list, or of those of a map.
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

/// Messages with a JSON form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Any,
    /// `Struct`, `Value`, `ListValue`, `Timestamp`, `Duration`, `FieldMask`, `Empty`.
    Other,
    /// `UInt32Value` and its like.
    Wrapper,
}

/// The schema of a message by full name: of the current API, or else of v2.
pub(crate) fn find(full_name: &str) -> Option<&'static Message> {
    find_in(ApiVersion::V3, full_name).or_else(|| {
        // All that only v2 has is Envoy's; nothing else need build its pool.
        let may_be_v2 = full_name.starts_with("envoy.");
        may_be_v2.then(|| find_in(ApiVersion::V2, full_name))?
    })
}

/// The schema of a message in the pool of a version. That of v2 has the messages of v3, too, with
/// descriptors of its own: messages of two pools do not mix.
pub(crate) fn find_in(api: ApiVersion, full_name: &str) -> Option<&'static Message> {
    type Schemas = RwLock<HashMap<String, &'static Message>>;
    static V2: LazyLock<Schemas> = LazyLock::new(RwLock::default);
    static V3: LazyLock<Schemas> = LazyLock::new(RwLock::default);
    let (schemas, pool) = match api {
        ApiVersion::V2 => (&V2, descriptor::v2_pool()),
        ApiVersion::V3 => (&V3, descriptor::pool()),
    };
    // Nothing panics while holding the lock; a poisoned map is still a map.
    if let Some(schema) = schemas
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(full_name)
    {
        return Some(schema);
    }
    let compiled = Message::compile(pool.get_message_by_name(full_name)?, api);
    let mut schemas = schemas.write().unwrap_or_else(PoisonError::into_inner);
    // Two threads may have compiled it; the first to come here wins.
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

    /// By proto or JSON name, as the JSON mapping asks of parsers.
    pub(crate) fn field_named(&self, name: &str) -> Option<&Field> {
        let index = self
            .names
            .binary_search_by(|(n, _)| n.as_str().cmp(name))
            .ok()?;
        Some(&self.fields[self.names[index].1])
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
        names.sort();
        names.dedup();
        Message {
            api,
            well_known: WellKnown::of(descriptor.full_name()),
            rules: MessageRules::compile(&descriptor, &fields),
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
    fn new(kind: Kind, api: ApiVersion) -> Type {
        Type {
            kind,
            api,
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
