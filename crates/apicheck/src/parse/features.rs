//! Defaults of the language levels for fields and enums, and the `features` of editions that change
//! them.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::model::{Options, Syntax};

/// Features of an element. Options of a file, message, oneof, enum and field override features for
/// the elements inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) presence: Presence,
    /// Whether enums are closed.
    pub(super) closed: bool,
    /// Whether repeated numbers are packed.
    pub(super) packed: bool,
    /// Whether messages are encoded between group tags.
    pub(super) delimited: bool,
    /// Whether names must differ in JSON.
    pub(super) json: bool,
}

/// Value of `features.field_presence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Explicit,
    Implicit,
    Required,
}

impl Features {
    /// Returns the defaults of a language level.
    pub(super) fn of(syntax: Syntax) -> Self {
        let (presence, closed, packed, json) = match syntax {
            Syntax::Proto2 => (Presence::Explicit, true, false, false),
            Syntax::Proto3 => (Presence::Implicit, false, true, true),
            Syntax::Edition(_) => (Presence::Explicit, false, true, true),
        };
        Features {
            presence,
            closed,
            packed,
            delimited: false,
            json,
        }
    }

    /// Returns the features inside an element with these options.
    pub(super) fn with(mut self, options: &Options) -> Self {
        let Some(features) = options.get("features").and_then(Value::as_message) else {
            return self;
        };
        if let Some(presence) = number(features, "field_presence") {
            self.presence = match presence {
                2 => Presence::Implicit,
                3 => Presence::Required,
                _ => Presence::Explicit,
            };
        }
        if let Some(kind) = number(features, "enum_type") {
            self.closed = kind == 2;
        }
        if let Some(encoding) = number(features, "repeated_field_encoding") {
            self.packed = encoding == 1;
        }
        if let Some(encoding) = number(features, "message_encoding") {
            self.delimited = encoding == 2;
        }
        if let Some(format) = number(features, "json_format") {
            self.json = format == 1;
        }
        self
    }
}

pub(super) fn number(features: &DynamicMessage, name: &str) -> Option<i32> {
    let (_, value) = features.fields().find(|(field, _)| field.name() == name)?;
    value.as_enum_number()
}

/// Converts `utf8_validation = NONE` to the number that the descriptors in use have for it. The
/// language changed the number from 1 to 3, so a descriptor set can have the other one.
pub(super) fn adapt_utf8_validation(options: &mut DynamicMessage) {
    // `get_field_by_name_mut` would set an unset field.
    if options.has_field_by_name("features")
        && let Some(Value::Message(features)) = options.get_field_by_name_mut("features")
        && matches!(number(features, UTF8), Some(1 | 3))
        && let Some(none) = number_of_none(features)
    {
        features.set_field_by_name(UTF8, Value::EnumNumber(none));
    }
}

fn number_of_none(features: &DynamicMessage) -> Option<i32> {
    let field = features.descriptor().get_field_by_name(UTF8)?;
    let kind = field.kind();
    Some(kind.as_enum()?.get_value_by_name("NONE")?.number())
}

const UTF8: &str = "utf8_validation";
