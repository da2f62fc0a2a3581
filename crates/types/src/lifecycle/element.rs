//! Elements of the API that are deprecated, or whose meaning may still change.

use std::fmt;

use prost_reflect::prost_types::{EnumValueOptions, FieldOptions};
use prost_reflect::{EnumValueDescriptor, FieldDescriptor};

use super::annotations::Annotations;
use super::replacements::{self, Replacement};
use crate::descriptor;

/// A deprecated field or enum value of the API. There is one per element and descriptor pool, which is never freed.
#[derive(Debug, PartialEq, Eq)]
pub struct Element {
    pub(super) name: Box<str>,
    pub(super) key: Box<str>,
    pub(super) part: Part,
    pub(super) since: Option<Box<str>>,
    pub(super) disallowed: bool,
}

/// The part of the API that an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// A field of a message.
    Field,
    /// A value of an enum.
    EnumValue,
}

impl Element {
    /// Prefix of the runtime keys that allow or disallow one element.
    pub const KEY_PREFIX: &'static str = "envoy.deprecated_features:";

    /// Returns the full name. An enum value has the name of its enum before it: `shop.v1.Color.RED`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the runtime key that allows or disallows the use. An enum value has the scope of its enum there, as in
    /// protobuf: `envoy.deprecated_features:shop.v1.RED`.
    #[must_use]
    pub fn runtime_key(&self) -> &str {
        &self.key
    }

    /// Returns the part of the API that this is.
    #[must_use]
    pub fn part(&self) -> Part {
        self.part
    }

    /// Returns the API version that deprecated it (`envoy.annotations.deprecated_at_minor_version`): `3.0`.
    #[must_use]
    pub fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    /// Returns whether the API disallows its use (`envoy.annotations.disallowed_by_default`).
    #[must_use]
    pub fn is_disallowed(&self) -> bool {
        self.disallowed
    }

    /// Returns the replacement according to the comments of the API; `None` if it is not known.
    #[must_use]
    pub fn replacement(&self) -> Option<Replacement<'static>> {
        replacements::find(&self.name)
    }

    /// Returns a field; `None` if it is not deprecated.
    pub(super) fn of_field(field: &FieldDescriptor) -> Option<Element> {
        let options = field.field_descriptor_proto().options.as_ref();
        if !options.is_some_and(FieldOptions::deprecated) {
            return None;
        }
        let (name, options) = (field.full_name(), Annotations::of(field.options()));
        Some(Element {
            key: format!("{}{name}", Self::KEY_PREFIX).into(),
            name: name.into(),
            part: Part::Field,
            since: options.text("envoy.annotations.deprecated_at_minor_version"),
            disallowed: options.flag("envoy.annotations.disallowed_by_default"),
        })
    }

    /// Returns an enum value; `None` if it is not deprecated.
    pub(super) fn of_value(value: &EnumValueDescriptor) -> Option<Element> {
        let options = value.enum_value_descriptor_proto().options.as_ref();
        if !options.is_some_and(EnumValueOptions::deprecated) {
            return None;
        }
        let options = Annotations::of(value.options());
        let in_enum = format!("{}.{}", value.parent_enum().full_name(), value.name());
        Some(Element {
            // protobuf: an enum value is a sibling of its enum, not a child.
            key: format!("{}{}", Self::KEY_PREFIX, value.full_name()).into(),
            name: in_enum.into(),
            part: Part::EnumValue,
            since: options.text("envoy.annotations.deprecated_at_minor_version_enum"),
            disallowed: options.flag("envoy.annotations.disallowed_by_default_enum"),
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Field => "field",
            Part::EnumValue => "value",
        })
    }
}

/// A field, message or file that is marked `work_in_progress`: it may change without notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkInProgress {
    /// A field, by full name.
    Field(Box<str>),
    /// A message, by full name.
    Message(Box<str>),
    /// A message, by full name, in a file, by import path.
    File {
        /// Full name of the message that is used.
        message: Box<str>,
        /// Import path of the file.
        file: Box<str>,
    },
}

impl WorkInProgress {
    /// Returns the full name of the field or message that is used.
    #[must_use]
    pub fn element(&self) -> &str {
        match self {
            Self::Field(name) | Self::Message(name) | Self::File { message: name, .. } => name,
        }
    }
}

impl fmt::Display for WorkInProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "work-in-progress field {name}"),
            Self::Message(name) => write!(f, "work-in-progress message {name}"),
            Self::File { message, file } => {
                write!(f, "message {message} of the work-in-progress file {file}")
            }
        }
    }
}

/// Returns all deprecated elements of API v3, in the order of the descriptors. Each call compiles them, which takes
/// milliseconds.
#[must_use]
pub fn all() -> Vec<Element> {
    let pool = descriptor::pool();
    let fields = pool.all_messages().flat_map(|message| {
        let fields: Vec<_> = message.fields().collect();
        fields
    });
    let values = pool.all_enums().flat_map(|one| {
        let values: Vec<_> = one.values().collect();
        values
    });
    let fields = fields.filter_map(|field| Element::of_field(&field));
    fields
        .chain(values.filter_map(|value| Element::of_value(&value)))
        .collect()
}
