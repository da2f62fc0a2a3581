//! Rules about fields and the enums that they use.

use super::Check;
use crate::model::{Cardinality, Field, FileId, Kind, Message, Syntax};

impl Check<'_> {
    /// Reports fields of a message that do not fit their types.
    pub(super) fn fields_of(&mut self, message: &Message) {
        // The entries of maps are checked with the fields that they belong to.
        if message.map_entry || self.tree[message.file].text.is_none() {
            return;
        }
        if message.options.is_true("message_set_wire_format") {
            for field in &message.fields {
                let why = format!(
                    "{}: the message set has a field {}: expected only extensions",
                    message.name, field.name
                );
                self.report(message.file, &field.source, why, None);
            }
        }
        for field in &message.fields {
            let full = format!("{}.{}", message.name, field.name);
            self.field(message.file, &full, field);
        }
    }

    /// Reports a field or extension whose enum does not fit.
    pub(super) fn field(&mut self, file: FileId, full: &str, field: &Field) {
        let value = self.tree.map_entry(field).map(|(_, value)| value.kind);
        let Kind::Enum(id) = value.unwrap_or(field.kind) else {
            return;
        };
        let declared = &self.tree[id];
        let mut wrong = Vec::new();
        let first = declared.values.first();
        if value.is_some() && first.is_some_and(|first| first.number != 0) {
            wrong.push(format!(
                "the first value of {} must be zero, because it is the value of a map",
                declared.name
            ));
        } else if declared.closed && self.tree[file].syntax == Syntax::Proto3 {
            wrong.push(format!(
                "{} is a closed enum: proto3 expects an open one, as of proto3",
                declared.name
            ));
        } else if declared.closed && field.cardinality == Cardinality::Implicit {
            wrong.push(format!(
                "{} is a closed enum: a field with implicit presence expects an open one",
                declared.name
            ));
        }
        if let Some(default) = &field.default
            && !declared.values.iter().any(|value| value.name == *default)
        {
            wrong.push(format!(
                "the default {default} is no value of {}: expected the name of a value",
                declared.name
            ));
        }
        for why in wrong {
            self.report(file, &field.source, format!("{full}: {why}"), None);
        }
    }
}
