//! Defaults of the language levels for fields and enums, and the `features` of editions that change
//! them.

use prost_reflect::{DynamicMessage, Value};

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
        let (presence, closed, packed) = match syntax {
            Syntax::Proto2 => (Presence::Explicit, true, false),
            Syntax::Proto3 => (Presence::Implicit, false, true),
            Syntax::Edition(_) => (Presence::Explicit, false, true),
        };
        Features {
            presence,
            closed,
            packed,
            delimited: false,
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
        self
    }
}

fn number(features: &DynamicMessage, name: &str) -> Option<i32> {
    let (_, value) = features.fields().find(|(field, _)| field.name() == name)?;
    value.as_enum_number()
}

/// Converts `utf8_validation = NONE` to the number 1 of the descriptors in use. Compilers write 3,
/// because the language changed the number.
pub(super) fn adapt_utf8_validation(options: &mut DynamicMessage) {
    // `get_field_by_name_mut` would set an unset field.
    if options.has_field_by_name("features")
        && let Some(Value::Message(features)) = options.get_field_by_name_mut("features")
        && number(features, UTF8) == Some(3)
    {
        features.set_field_by_name(UTF8, Value::EnumNumber(1));
    }
}

const UTF8: &str = "utf8_validation";
