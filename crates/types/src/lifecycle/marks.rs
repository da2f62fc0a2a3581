//! Marks of messages and fields, compiled once per message type: the annotations that make their use worth a finding.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, Value};

use super::annotations::Annotations;
use super::element::{Element, WorkInProgress};

/// Annotations of `udpa` and `xds`: both are in use.
const FIELD_STATUS: [&str; 2] = [
    "xds.annotations.v3.field_status",
    "udpa.annotations.field_status",
];
const MESSAGE_STATUS: [&str; 2] = [
    "xds.annotations.v3.message_status",
    "udpa.annotations.message_status",
];
const FILE_STATUS: [&str; 2] = [
    "xds.annotations.v3.file_status",
    "udpa.annotations.file_status",
];

/// A use of a marked element.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark<'a> {
    Deprecated(&'a Element),
    /// The field is unset, and its type has a deprecated default.
    DeprecatedDefault(&'a Element),
    WorkInProgress(&'a WorkInProgress),
}

/// Marks of a message type.
#[derive(Debug, Default)]
pub(crate) struct MessageMarks {
    work_in_progress: Option<Box<[WorkInProgress]>>,
    /// Fields whose type has a deprecated default value: number, and index into the values of its marks.
    defaults: Option<Box<[u32]>>,
}

/// Marks of a field and of the values of its enum.
#[derive(Debug)]
pub(crate) struct FieldMarks {
    deprecated: Option<Element>,
    work_in_progress: Option<WorkInProgress>,
    values: Box<[(i32, Element)]>,
    /// Whether the field has its enum's default value while it is unset.
    has_default: bool,
}

impl MessageMarks {
    /// Compiles the marks of a message from its options and those of its fields, by number.
    pub(crate) fn compile<'a>(
        descriptor: &MessageDescriptor,
        fields: impl Iterator<Item = (u32, Option<&'a FieldMarks>)>,
    ) -> MessageMarks {
        let name = || descriptor.full_name().into();
        let mut found = Vec::new();
        if Annotations::of(descriptor.options()).work_in_progress(MESSAGE_STATUS) {
            found.push(WorkInProgress::Message(name()));
        }
        let file = descriptor.parent_file();
        if Annotations::of(file.options()).work_in_progress(FILE_STATUS) {
            found.push(WorkInProgress::File {
                message: name(),
                file: file.name().into(),
            });
        }
        let defaults: Box<[u32]> = fields
            .filter(|(_, marks)| marks.is_some_and(|marks| marks.default().is_some()))
            .map(|(number, _)| number)
            .collect();
        MessageMarks {
            work_in_progress: (!found.is_empty()).then(|| found.into()),
            defaults: (!defaults.is_empty()).then_some(defaults),
        }
    }

    /// Returns the marks of the message itself, which each use of it has.
    pub(crate) fn work_in_progress(&self) -> &[WorkInProgress] {
        self.work_in_progress.as_deref().unwrap_or_default()
    }

    /// Returns the numbers of the fields that have a deprecated value while they are unset.
    pub(crate) fn defaults(&self) -> &[u32] {
        self.defaults.as_deref().unwrap_or_default()
    }
}

impl FieldMarks {
    /// Compiles the marks of a field; `None` for most fields, which have none.
    pub(crate) fn compile(field: &FieldDescriptor) -> Option<Box<FieldMarks>> {
        // The messages of protobuf's own options are not part of a configuration.
        let options = field.field_descriptor_proto().options.as_ref();
        let deprecated = Element::of_field(field);
        // Decoding the options with their extensions is slow: fields without options have no extension.
        let wip = options
            .is_some()
            .then(|| Annotations::of(field.options()).work_in_progress(FIELD_STATUS));
        let work_in_progress =
            (wip == Some(true)).then(|| WorkInProgress::Field(field.full_name().into()));
        let mut values: Vec<(i32, Element)> = Vec::new();
        if let Kind::Enum(descriptor) = value_kind(field) {
            for value in descriptor.values() {
                values.extend(Element::of_value(&value).map(|element| (value.number(), element)));
            }
        }
        if deprecated.is_none() && work_in_progress.is_none() && values.is_empty() {
            return None;
        }
        Some(Box::new(FieldMarks {
            deprecated,
            work_in_progress,
            values: values.into(),
            // A field of a oneof, or one with presence, has no value while it is unset.
            has_default: !field.is_list() && !field.is_map() && !field.supports_presence(),
        }))
    }

    /// Reports the marks of a field that is set to `value`.
    pub(crate) fn of_set(&'static self, value: &Value, note: &mut dyn FnMut(Mark<'static>)) {
        self.of_name(note);
        if self.values.is_empty() {
            return;
        }
        let mut number = |value: &Value| {
            if let Value::EnumNumber(number) = value {
                self.of_number(*number, note);
            }
        };
        match value {
            Value::List(values) => values.iter().for_each(number),
            Value::Map(values) => values.values().for_each(number),
            value => number(value),
        }
    }

    /// Reports the marks that the field has whatever its value is.
    pub(crate) fn of_name(&'static self, note: &mut dyn FnMut(Mark<'static>)) {
        if let Some(element) = &self.deprecated {
            note(Mark::Deprecated(element));
        }
        if let Some(mark) = &self.work_in_progress {
            note(Mark::WorkInProgress(mark));
        }
    }

    /// Reports the mark of an enum value.
    pub(crate) fn of_number(&'static self, number: i32, note: &mut dyn FnMut(Mark<'static>)) {
        if let Some((_, element)) = self.values.iter().find(|(known, _)| *known == number) {
            note(Mark::Deprecated(element));
        }
    }

    /// Returns whether a value of the enum has a mark.
    pub(crate) fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Returns the deprecated value that the field has while it is unset.
    pub(crate) fn default(&self) -> Option<&Element> {
        let (_, element) = self.values.iter().find(|(number, _)| *number == 0)?;
        self.has_default.then_some(element)
    }
}

/// Returns the type of the value, of the items, or of the map values.
fn value_kind(field: &FieldDescriptor) -> Kind {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    }
}
