//! Looks at the fields of a decoded message: unknown fields, and elements that are deprecated or unfinished. Text is
//! inspected while it is read.

use prost_reflect::{DynamicMessage, MapKey, Value};

use super::notice::About;
use super::resource::Options;
use super::walk::Walk;
use crate::error::Reason;
use crate::lifecycle::FieldMarks;
use crate::path::{FieldPath, Step, key_text};
use crate::schema::{self, Field, Message, Shape, Type, WellKnown, unpack};

/// Handling of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Errors.
    Reject,
    /// Notices.
    Accept,
}

/// How a message is inspected.
#[derive(Clone, Copy)]
struct Inspection<'a> {
    walk: &'a Walk,
    /// `None`: unknown fields, and the messages in an `Any`, were looked at before.
    unknown: Option<Unknown>,
}

impl Unknown {
    pub(super) fn by(options: &Options) -> Self {
        if options.allow_unknown_fields {
            Self::Accept
        } else {
            Self::Reject
        }
    }
}

/// Records unknown fields and marked elements of the message at `path`, and of the messages in it.
pub(super) fn inspect(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    unknown: Unknown,
    walk: &Walk,
) {
    let unknown = Some(unknown);
    Inspection { walk, unknown }.message(schema, message, path);
}

/// Records the marked elements of a message that was converted from API v2, whose descriptors have no annotations. The
/// messages in an `Any` were inspected when they were read.
pub(super) fn marks(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    walk: &Walk,
) {
    if !walk.is_noticing {
        return;
    }
    let unknown = None;
    Inspection { walk, unknown }.message(schema, message, path);
}

impl Inspection<'_> {
    fn message(self, schema: &'static Message, message: &DynamicMessage, path: &mut FieldPath) {
        if let Some(unknown) = self.unknown {
            self.unknown_fields(schema, message, unknown, path);
        }
        for (descriptor, value) in message.fields() {
            let Some(field) = schema.field(descriptor.number()) else {
                continue;
            };
            path.push(Step::Field(&field.name));
            self.field(field, value, path);
            path.pop();
        }
        let is_set = |number| message.has_field_by_number(number);
        unset_marks(schema, is_set, path, self.walk);
        if schema.is_typed_struct {
            typed_struct(message, path, self.walk);
        }
    }

    fn unknown_fields(
        self,
        schema: &'static Message,
        message: &DynamicMessage,
        unknown: Unknown,
        path: &mut FieldPath,
    ) {
        for field in message.unknown_fields() {
            let (field, message) = (field.number().to_string(), schema.full_name());
            path.push(Step::Unknown(field.clone()));
            match unknown {
                Unknown::Reject => {
                    let message = message.to_owned();
                    let reason = Reason::UnknownField { field, message };
                    self.walk.note_at(path.clone(), reason);
                }
                Unknown::Accept => {
                    let about = About::UnknownField {
                        field,
                        message,
                        is_kept: true,
                    };
                    self.walk.notice_with(about, || path.clone());
                }
            }
            path.pop();
        }
    }

    fn field(self, field: &'static Field, value: &Value, path: &mut FieldPath) {
        let walk = self.walk;
        if let Some(marks) = &field.marks
            && walk.is_noticing
        {
            marks.of_set(value, &mut |mark| {
                walk.notice_with(mark.into(), || path.clone());
            });
        }
        match (&field.shape, value) {
            (Shape::One(ty), value) => self.value(ty, value, path),
            (Shape::List(ty), Value::List(values)) => {
                for (index, value) in values.iter().enumerate() {
                    path.push(Step::Index(index));
                    self.value(ty, value, path);
                    path.pop();
                }
            }
            (Shape::Map { value: ty, .. }, Value::Map(values)) => {
                for (key, value) in values {
                    path.push(Step::Key(key_text(key)));
                    self.value(ty, value, path);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn value(self, ty: &'static Type, value: &Value, path: &mut FieldPath) {
        let (Some(schema), Value::Message(message)) = (ty.message(), value) else {
            return;
        };
        match schema.well_known {
            None => self.message(schema, message, path),
            Some(WellKnown::Any) if self.unknown.is_none() => {}
            Some(WellKnown::Any) => match unpack(message) {
                Some((schema, message)) => self.message(schema, &message, path),
                None => {
                    let url = message.get_field_by_number(1);
                    let url = url.as_ref().and_then(|url| url.as_str());
                    let url = url.unwrap_or_default();
                    if !url.is_empty() && self.unknown == Some(Unknown::Reject) {
                        let reason = Reason::UnknownType(url.to_owned());
                        self.walk.note_at(path.clone(), reason);
                    }
                }
            },
            Some(_) => {}
        }
    }
}

fn unset_marks(
    schema: &'static Message,
    is_set: impl Fn(u32) -> bool,
    path: &FieldPath,
    walk: &Walk,
) {
    if !walk.is_noticing {
        return;
    }
    schema.unset_marks(is_set, &mut |field, mark| {
        walk.notice_with(mark.into(), || {
            let mut path = path.clone();
            field
                .into_iter()
                .for_each(|name| path.push(Step::Field(name)));
            path
        });
    });
}

/// Records the marked elements of a `TypedStruct`: its `Struct` is the JSON form of the message that its type URL
/// names. As in Envoy, fields that the message does not have are left to the extension.
pub(super) fn typed_struct(message: &DynamicMessage, path: &mut FieldPath, walk: &Walk) {
    if !walk.is_noticing {
        return;
    }
    let url = message.get_field_by_number(1);
    let name = url
        .as_ref()
        .and_then(|url| Some(url.as_str()?.rsplit_once('/')?.1));
    let Some(schema) = name.and_then(schema::find) else {
        return;
    };
    if let Some(value) = message.get_field_by_number(2) {
        path.push(Step::Field("value"));
        struct_message(schema, value.as_message(), path, walk);
        path.pop();
    }
}

/// Records the marked elements of a message in the form of a `Struct`.
fn struct_message(
    schema: &'static Message,
    object: Option<&DynamicMessage>,
    path: &mut FieldPath,
    walk: &Walk,
) {
    let fields = object.and_then(|object| object.get_field_by_number(1));
    let Some(entries) = fields.as_ref().and_then(|fields| fields.as_map()) else {
        return;
    };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    let mut set = Vec::new();
    for (key, value) in entries {
        let (MapKey::String(name), Some(value)) = (key, value.as_message()) else {
            continue;
        };
        let field = schema.field_named(name);
        let Some(field) = field.filter(|_| !value.has_field_by_number(NULL)) else {
            continue;
        };
        set.push(field.number);
        path.push(Step::Field(&field.name));
        if let Some(marks) = &field.marks {
            marks.of_name(&mut |mark| walk.notice_with(mark.into(), || path.clone()));
            if marks.has_values() {
                enum_values(field, marks, value, path, walk);
            }
        }
        struct_value(field, value, path, walk);
        path.pop();
    }
    unset_marks(schema, |number| set.contains(&number), path, walk);
}

/// Numbers of the fields of `google.protobuf.Value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const OBJECT: u32 = 5;
const LIST: u32 = 6;

/// Records the marked values of an enum, by name or number.
fn enum_values(
    field: &'static Field,
    marks: &'static FieldMarks,
    value: &DynamicMessage,
    path: &FieldPath,
    walk: &Walk,
) {
    let prost_reflect::Kind::Enum(descriptor) = &field.shape.value().kind else {
        return;
    };
    each(&field.shape, value, &mut |value| {
        let number = if value.has_field_by_number(STRING) {
            let name = value.get_field_by_number(STRING);
            let name = name.as_ref().and_then(|name| name.as_str());
            let known = name.and_then(|name| descriptor.get_value_by_name(name));
            known.map(|known| known.number())
        } else if value.has_field_by_number(NUMBER) {
            let number = value.get_field_by_number(NUMBER);
            number
                .and_then(|number| number.as_f64())
                .map(|number| number as i32)
        } else {
            None
        };
        if let Some(number) = number {
            marks.of_number(number, &mut |mark| {
                walk.notice_with(mark.into(), || path.clone());
            });
        }
    });
}

/// Calls `on_value` for the one value of a field, for the items of a list, or for the values of a map.
fn each(shape: &Shape, value: &DynamicMessage, on_value: &mut dyn FnMut(&DynamicMessage)) {
    match shape {
        Shape::One(_) => on_value(value),
        Shape::List(_) => {
            let list = value.get_field_by_number(LIST);
            let list = list
                .as_ref()
                .and_then(|list| list.as_message()?.get_field_by_number(1));
            let items = list
                .as_ref()
                .and_then(|items| items.as_list())
                .unwrap_or_default();
            items
                .iter()
                .filter_map(Value::as_message)
                .for_each(on_value);
        }
        Shape::Map { .. } => {
            let object = value.get_field_by_number(OBJECT);
            let object = object
                .as_ref()
                .and_then(|object| object.as_message()?.get_field_by_number(1));
            let Some(entries) = object.as_ref().and_then(|entries| entries.as_map()) else {
                return;
            };
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let values = entries
                .into_iter()
                .filter_map(|(_, value)| value.as_message());
            values.for_each(on_value);
        }
    }
}

/// Records the marked elements of the messages that a field has.
fn struct_value(field: &'static Field, value: &DynamicMessage, path: &mut FieldPath, walk: &Walk) {
    let Some(schema) = field.shape.value().message() else {
        return;
    };
    let mut index = 0;
    each(&field.shape, value, &mut |value| {
        let is_list = matches!(field.shape, Shape::List(_));
        if is_list {
            path.push(Step::Index(index));
            index += 1;
        }
        let object = value.get_field_by_number(OBJECT);
        let object = object.as_ref().and_then(|object| object.as_message());
        match schema.well_known {
            None => struct_message(schema, object, path, walk),
            Some(WellKnown::Any) => {
                if let Some(schema) = any_type(object) {
                    struct_message(schema, object, path, walk);
                }
            }
            Some(_) => {}
        }
        if is_list {
            path.pop();
        }
    });
}

/// Returns the schema that the `@type` of an object names.
fn any_type(object: Option<&DynamicMessage>) -> Option<&'static Message> {
    let fields = object?.get_field_by_number(1)?;
    let key = MapKey::String("@type".to_owned());
    let url = fields
        .as_map()?
        .get(&key)?
        .as_message()?
        .get_field_by_number(STRING)?;
    schema::find(url.as_str()?.rsplit_once('/')?.1)
}
