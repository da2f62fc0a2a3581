//! Messages from serde deserializers: JSON and YAML in the JSON mapping of proto3.
//!
//! `prost-reflect` offers the same, but its errors have no field path, it buffers the content of an `Any`, which loses
//! the position, and it stops at the first unknown field.

use std::fmt;

use prost_reflect::{DynamicMessage, Kind, MapKey, Value};
use serde::de::value::{Error as Invalid, MapDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

use super::notice::About;
use super::value::{Buffered, ScalarSeed};
use super::walk::{Context, Walk};
use super::{canonical, inspector};
use crate::ApiVersion;
use crate::error::Reason;
use crate::path::Step;
use crate::schema::{self, Field, Message, Shape, Type, WellKnown};
use crate::validate::{self, Nested};

/// Reads a message with this schema, in its JSON form.
pub(super) struct MessageSeed<'a> {
    pub(super) schema: &'static Message,
    pub(super) context: Context<'a>,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Context { walk, .. } = self.context;
        walk.nested(
            || match (self.schema.well_known, self.schema.fields.first()) {
                (Some(WellKnown::Any), _) => deserializer.deserialize_any(AnyVisitor {
                    schema: self.schema,
                    context: self.context,
                }),
                (
                    Some(WellKnown::Wrapper),
                    Some(Field {
                        number,
                        shape: Shape::One(ty),
                        ..
                    }),
                ) => {
                    let value = ScalarSeed {
                        kind: &ty.kind,
                        walk,
                    }
                    .deserialize(deserializer)?;
                    let mut message = DynamicMessage::new(self.schema.descriptor.clone());
                    message.set_field_by_number(*number, value);
                    Ok(message)
                }
                (Some(_), _) => match TextForm::of(self.schema) {
                    Some(form) => deserializer.deserialize_any(form),
                    None => {
                        DynamicMessage::deserialize(self.schema.descriptor.clone(), deserializer)
                    }
                },
                (None, _) => deserializer.deserialize_any(self),
            },
        )
    }
}

/// Reads a well-known type that is written as a text.
struct TextForm {
    schema: &'static Message,
    expected: &'static str,
}

impl TextForm {
    fn of(schema: &'static Message) -> Option<Self> {
        let expected = match schema.full_name() {
            "google.protobuf.Duration" => "a duration in seconds, such as 1.5s",
            "google.protobuf.Timestamp" => "a time, such as 2006-01-02T15:04:05Z",
            _ => return None,
        };
        Some(Self { schema, expected })
    }
}

impl Visitor<'_> for TextForm {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let deserializer: StrDeserializer<'_, Invalid> = text.into_deserializer();
        DynamicMessage::deserialize(self.schema.descriptor.clone(), deserializer)
            .map_err(|_| E::custom(format_args!("{text:?}: expected {}", self.expected)))
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields of {}", self.schema.full_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut message = DynamicMessage::new(self.schema.descriptor.clone());
        let mut seen = Vec::new();
        fill(&mut message, self.schema, map, self.context, &mut seen)?;
        unset_marks(&seen, self.schema, self.context.walk);
        Ok(message)
    }
}

/// Reads the remaining fields of a message. `seen` are the fields that were read before.
fn fill<'de, A: MapAccess<'de>>(
    message: &mut DynamicMessage,
    schema: &'static Message,
    mut map: A,
    context: Context<'_>,
    seen: &mut Vec<&'static Field>,
) -> Result<(), A::Error> {
    let walk = context.walk;
    while let Some(key) = map.next_key_seed(KeySeed(schema))? {
        let field = match key {
            Key::Field(field) => field,
            Key::Unknown(name) => {
                unknown_field(schema, name, context);
                map.next_value::<IgnoredAny>()?;
                continue;
            }
        };
        walk.at(Step::Field(&field.name), || {
            let Some(value) = map.next_value_seed(FieldSeed { field, context })? else {
                return Ok(());
            };
            if seen.iter().any(|earlier| earlier.number == field.number) {
                return Err(walk.stop(Reason::Value("duplicate field".to_owned())));
            }
            let same_oneof =
                |earlier: &&&Field| field.oneof.is_some() && earlier.oneof == field.oneof;
            if let Some(other) = seen.iter().find(same_oneof) {
                let reason = format!(
                    "fields `{}` and `{}` are both set: expected at most one of them",
                    other.name, field.name
                );
                return Err(walk.stop(Reason::Value(reason)));
            }
            if let Some(marks) = &field.marks
                && walk.is_noticing
            {
                marks.of_set(&value, &mut |mark| walk.notice(mark));
            }
            seen.push(field);
            // The seeds produce values of the field's type. If one does not, that is an error, not a panic.
            message
                .try_set_field(&field.descriptor, value)
                .map_err(A::Error::custom)
        })?;
    }
    Ok(())
}

/// Reports the marks of a message of which the fields `seen` were read.
fn unset_marks(seen: &[&'static Field], schema: &'static Message, walk: &Walk) {
    if !walk.is_noticing {
        return;
    }
    let is_set = |number| seen.iter().any(|field| field.number == number);
    schema.unset_marks(is_set, &mut |field, mark| {
        walk.notice_field(field.map(Step::Field), mark);
    });
}

/// Records an unknown field: an error, or a notice if the options accept it.
pub(super) fn unknown_field(schema: &'static Message, name: String, context: Context<'_>) {
    if context.options.allow_unknown_fields {
        let about = About::UnknownField {
            field: name.clone(),
            message: schema.full_name(),
            // Text has no number for it.
            is_kept: false,
        };
        return context.walk.notice_field(Some(Step::Unknown(name)), about);
    }
    let message = schema.full_name().to_owned();
    let reason = Reason::UnknownField {
        field: name.clone(),
        message,
    };
    context.walk.note_field(Step::Unknown(name), reason);
}

/// A key of an object. Known keys are looked up without a copy.
enum Key {
    Field(&'static Field),
    Unknown(String),
}

struct KeySeed(&'static Message);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(match self.0.field_named(name) {
            Some(field) => Key::Field(field),
            None => Key::Unknown(name.to_owned()),
        })
    }
}

/// Reads the value of a field; `None` for null, which means that the field is not set.
struct FieldSeed<'a> {
    field: &'static Field,
    context: Context<'a>,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of {}", self.field.name)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_none()
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        match &self.field.shape {
            // For `Value`, null is a value.
            Shape::One(Type {
                kind: Kind::Message(value),
                ..
            }) if value.full_name() == "google.protobuf.Value" => {
                let mut null = DynamicMessage::new(value.clone());
                null.set_field_by_number(1, Value::EnumNumber(0));
                Ok(Some(Value::Message(null)))
            }
            Shape::One(Type {
                kind: Kind::Enum(value),
                ..
            }) if value.full_name() == "google.protobuf.NullValue" => {
                Ok(Some(Value::EnumNumber(0)))
            }
            _ => Ok(None),
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let context = self.context;
        match &self.field.shape {
            Shape::One(ty) => ValueSeed { ty, context }.deserialize(deserializer),
            Shape::List(ty) => deserializer.deserialize_any(ListVisitor { ty, context }),
            Shape::Map { key, value } => deserializer.deserialize_any(EntriesVisitor {
                key,
                ty: value,
                context,
            }),
        }
        .map(Some)
    }
}

/// Reads one value, which is a scalar or a message.
struct ValueSeed<'a> {
    ty: &'static Type,
    context: Context<'a>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let context = self.context;
        match self.ty.message() {
            Some(schema) => MessageSeed { schema, context }
                .deserialize(deserializer)
                .map(Value::Message),
            None => ScalarSeed {
                kind: &self.ty.kind,
                walk: context.walk,
            }
            .deserialize(deserializer),
        }
    }
}

struct ListVisitor<'a> {
    ty: &'static Type,
    context: Context<'a>,
}

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let (ty, context) = (self.ty, self.context);
        let mut values = Vec::new();
        loop {
            let index = Step::Index(values.len());
            match context
                .walk
                .at(index, || seq.next_element_seed(ValueSeed { ty, context }))?
            {
                Some(value) => values.push(value),
                None => return Ok(Value::List(values)),
            }
        }
    }
}

struct EntriesVisitor<'a> {
    key: &'static Kind,
    ty: &'static Type,
    context: Context<'a>,
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (ty, context) = (self.ty, self.context);
        let mut entries = std::collections::HashMap::new();
        while let Some(text) = map.next_key::<String>()? {
            let value = context.walk.at(Step::Key(text.clone()), || {
                map.next_value_seed(ValueSeed { ty, context })
            })?;
            let Some(key) = map_key(self.key, &text) else {
                return Err(context
                    .walk
                    .stop(Reason::Value(format!("invalid map key {text:?}"))));
            };
            if entries.insert(key, value).is_some() {
                return Err(context
                    .walk
                    .stop(Reason::Value(format!("duplicate map key {text:?}"))));
            }
        }
        Ok(Value::Map(entries))
    }
}

fn map_key(kind: &Kind, text: &str) -> Option<MapKey> {
    Some(match kind {
        Kind::Bool => MapKey::Bool(text.parse().ok()?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(text.parse().ok()?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(text.parse().ok()?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(text.parse().ok()?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(text.parse().ok()?),
        _ => MapKey::String(text.to_owned()),
    })
}

/// Reads an `Any`. The message in it is read, checked and encoded at once.
struct AnyVisitor<'a> {
    /// Schema of `Any` itself.
    schema: &'static Message,
    context: Context<'a>,
}

impl<'de> Visitor<'de> for AnyVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `@type`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let walk = self.context.walk;
        let mut any = DynamicMessage::new(self.schema.descriptor.clone());
        let Some((schema, inner)) = typed(map, self.context)? else {
            return Ok(any);
        };
        let is_v2 = schema.api == ApiVersion::V2;
        let Ok((schema, inner)) = canonical::to_current(schema, inner, walk) else {
            return Ok(any);
        };
        if schema.is_typed_struct {
            inspector::typed_struct(&inner, &mut walk.path(), walk);
        } else if is_v2 {
            inspector::marks(schema, &inner, &mut walk.path(), walk);
        }
        validate::check(
            schema,
            &inner,
            &mut walk.path(),
            Nested::Skip,
            &mut |path, broken| {
                walk.note_at(path.clone(), broken.into());
            },
        );
        let mut value = Vec::new();
        canonical::encode(schema, &inner, &mut value);
        any.set_field_by_number(1, Value::String(canonical::type_url(schema)));
        any.set_field_by_number(2, Value::Bytes(value.into()));
        Ok(any)
    }
}

/// Reads an object with `@type`; `None` for an empty object.
fn typed<'de, A: MapAccess<'de>>(
    mut map: A,
    context: Context<'_>,
) -> Result<Option<(&'static Message, DynamicMessage)>, A::Error> {
    let mut early = Vec::new();
    while let Some(key) = map.next_key::<String>()? {
        if key != TYPE {
            early.push((key, map.next_value::<Buffered>()?));
            continue;
        }
        let schema = find_type(&map.next_value::<String>()?, context)?;
        let message = typed_rest(schema, early, map, context)?;
        return Ok(Some((schema, message)));
    }
    if early.is_empty() {
        Ok(None)
    } else {
        Err(context.walk.stop(Reason::NoType))
    }
}

/// The key that holds the type URL of an object.
pub(super) const TYPE: &str = "@type";

/// Returns the schema of the message that a type URL names.
pub(super) fn find_type<E: Error>(url: &str, context: Context<'_>) -> Result<&'static Message, E> {
    let schema = url
        .rsplit_once('/')
        .and_then(|(_, name)| schema::find(name));
    schema.ok_or_else(|| context.walk.stop(Reason::UnknownType(url.to_owned())))
}

/// Reads a message of known type from the entries before its `@type`, which were buffered, and those after it.
pub(super) fn typed_rest<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Buffered)>,
    map: A,
    context: Context<'_>,
) -> Result<DynamicMessage, A::Error> {
    if schema.well_known.is_some() {
        return well_known_rest(schema, early, map, context);
    }
    let mut message = DynamicMessage::new(schema.descriptor.clone());
    let mut seen = Vec::new();
    let early = MapDeserializer::new(early.into_iter());
    fill(&mut message, schema, early, context, &mut seen)?;
    fill(&mut message, schema, map, context, &mut seen)?;
    unset_marks(&seen, schema, context.walk);
    Ok(message)
}

/// ProtoJSON, "Any": the content of a well-known type is under the key `value`.
fn well_known_rest<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Buffered)>,
    mut map: A,
    context: Context<'_>,
) -> Result<DynamicMessage, A::Error> {
    let seed = || MessageSeed { schema, context };
    let mut message = None;
    for (key, value) in early {
        match key.as_str() {
            "value" => {
                let value = value.into_deserializer();
                message = Some(seed().deserialize(value)?);
            }
            _ => unknown_field(schema, key, context),
        }
    }
    while let Some(key) = map.next_key::<String>()? {
        match key.as_str() {
            "value" => message = Some(map.next_value_seed(seed())?),
            _ => {
                map.next_value::<IgnoredAny>()?;
                unknown_field(schema, key, context);
            }
        }
    }
    Ok(message.unwrap_or_else(|| DynamicMessage::new(schema.descriptor.clone())))
}
