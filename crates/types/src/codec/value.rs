//! Single values in the JSON mapping of proto3: scalars, enum values, and buffered values.
//!
//! Numbers may be strings, bytes are base64, and enum values are names or numbers.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, Value};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::walk::Walk;
use crate::descriptor;
use crate::error::Reason;

/// Reads a scalar or an enum value of a protobuf type.
pub(super) struct ScalarSeed<'a> {
    pub(super) kind: &'a Kind,
    pub(super) walk: &'a Walk,
}

impl<'de> DeserializeSeed<'de> for ScalarSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.kind {
            Kind::Double => deserializer
                .deserialize_any(NumberVisitor::<f64>::default())
                .map(Value::F64),
            Kind::Float => deserializer
                .deserialize_any(NumberVisitor::<f32>::default())
                .map(Value::F32),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => deserializer
                .deserialize_any(NumberVisitor::<i32>::default())
                .map(Value::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => deserializer
                .deserialize_any(NumberVisitor::<i64>::default())
                .map(Value::I64),
            Kind::Uint32 | Kind::Fixed32 => deserializer
                .deserialize_any(NumberVisitor::<u32>::default())
                .map(Value::U32),
            Kind::Uint64 | Kind::Fixed64 => deserializer
                .deserialize_any(NumberVisitor::<u64>::default())
                .map(Value::U64),
            Kind::Bool => deserializer.deserialize_any(BoolVisitor).map(Value::Bool),
            // Not `deserialize_str`: an unquoted 1.10 in YAML is a number. Other tools would turn it into 1.1.
            Kind::String => deserializer.deserialize_any(TextVisitor).map(Value::String),
            Kind::Enum(descriptor) => deserializer.deserialize_any(EnumVisitor {
                descriptor,
                walk: self.walk,
            }),
            Kind::Bytes => bytes(deserializer),
            Kind::Message(_) => Err(D::Error::custom("not a scalar")),
        }
    }
}

/// Reads base64 in either alphabet. Bytes fields are rare, so the reader of `BytesValue` does the work.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let wrapper = descriptor::message("google.protobuf.BytesValue")
        .ok_or_else(|| D::Error::custom("no descriptor of BytesValue"))?;
    let wrapper = DynamicMessage::deserialize(wrapper, deserializer)?;
    let value = wrapper
        .get_field_by_number(1)
        .map(std::borrow::Cow::into_owned);
    Ok(value.unwrap_or_else(|| Value::Bytes(bytes::Bytes::new())))
}

/// A numeric type of protobuf, as Rust represents it.
trait Number: FromStr<Err: fmt::Display> {
    const NAME: &'static str;
    fn from_i128(value: i128) -> Option<Self>;
    fn from_f64(value: f64) -> Option<Self>;
}

macro_rules! integer {
    ($($ty:ident $name:literal),*) => {$(
        impl Number for $ty {
            const NAME: &'static str = $name;
            fn from_i128(value: i128) -> Option<Self> {
                value.try_into().ok()
            }
            /// ProtoJSON: integers may be written `1.0` or `1e3` if the value is exact.
            fn from_f64(value: f64) -> Option<Self> {
                let exact = value.trunc() == value && value.abs() <= 9_007_199_254_740_992.0;
                exact.then_some(value as i128).and_then(Self::from_i128)
            }
        }
    )*};
}

integer!(i32 "a 32-bit integer", i64 "a 64-bit integer", u32 "an unsigned 32-bit integer",
    u64 "an unsigned 64-bit integer");

impl Number for f64 {
    const NAME: &'static str = "a number";
    fn from_i128(value: i128) -> Option<Self> {
        Some(value as f64)
    }
    fn from_f64(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Number for f32 {
    const NAME: &'static str = "a 32-bit number";
    fn from_i128(value: i128) -> Option<Self> {
        Some(value as f32)
    }
    fn from_f64(value: f64) -> Option<Self> {
        let narrow = value as f32;
        (narrow.is_finite() || !value.is_finite()).then_some(narrow)
    }
}

struct NumberVisitor<T>(PhantomData<T>);

impl<T> Default for NumberVisitor<T> {
    fn default() -> Self {
        NumberVisitor(PhantomData)
    }
}

impl<T: Number> Visitor<'_> for NumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        T::from_i128(value.into()).ok_or_else(|| out_of_range::<T, E>(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        T::from_i128(value.into()).ok_or_else(|| out_of_range::<T, E>(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<T, E> {
        T::from_i128(value).ok_or_else(|| out_of_range::<T, E>(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        T::from_f64(value).ok_or_else(|| out_of_range::<T, E>(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        let number = match value {
            "Infinity" => T::from_f64(f64::INFINITY),
            "-Infinity" => T::from_f64(f64::NEG_INFINITY),
            "NaN" => T::from_f64(f64::NAN),
            _ => value.parse().ok(),
        };
        number.ok_or_else(|| E::custom(format_args!("{value:?}: expected {}", T::NAME)))
    }
}

fn out_of_range<T: Number, E: Error>(value: impl fmt::Display) -> E {
    E::custom(format_args!("{value}: expected {}", T::NAME))
}

struct BoolVisitor;

impl Visitor<'_> for BoolVisitor {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string (quote it if it looks like another type)")
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_string<E>(self, value: String) -> Result<String, E> {
        Ok(value)
    }
}

struct EnumVisitor<'a> {
    descriptor: &'a EnumDescriptor,
    walk: &'a Walk,
}

impl Visitor<'_> for EnumVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of the enum {}", self.descriptor.full_name())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        if let Some(known) = self.descriptor.get_value_by_name(value) {
            return Ok(Value::EnumNumber(known.number()));
        }
        // Apart from `NullValue`, nothing else depends on the value: record the error and continue to find more.
        let known: Vec<String> = self
            .descriptor
            .values()
            .map(|known| known.name().to_owned())
            .collect();
        let reason = format!("{value:?}: expected one of {}", known.join(", "));
        self.walk.note(Reason::Value(reason));
        Ok(Value::EnumNumber(0))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        value
            .try_into()
            .map(Value::EnumNumber)
            .map_err(|_| E::custom(format_args!("{value} is out of range for an enum")))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        value
            .try_into()
            .map(Value::EnumNumber)
            .map_err(|_| E::custom(format_args!("{value} is out of range for an enum")))
    }
}

/// A value of JSON or YAML, kept until its type is known: objects whose `@type` is not their first key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Buffered {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<Buffered>),
    Map(Vec<(String, Buffered)>),
}

impl<'de> Deserialize<'de> for Buffered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BufferedVisitor)
    }
}

struct BufferedVisitor;

impl<'de> Visitor<'de> for BufferedVisitor {
    type Value = Buffered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Buffered, E> {
        Ok(Buffered::Null)
    }

    fn visit_none<E>(self) -> Result<Buffered, E> {
        Ok(Buffered::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Buffered, D::Error> {
        Buffered::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Buffered, E> {
        Ok(Buffered::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Buffered, E> {
        Ok(Buffered::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Buffered, E> {
        Ok(Buffered::Uint(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Buffered, E> {
        Ok(Buffered::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Buffered, E> {
        Ok(Buffered::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Buffered, E> {
        Ok(Buffered::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Buffered, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Buffered::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Buffered, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Buffered::Map(entries))
    }
}

/// Deserializes a buffered value with the error type of its format.
pub(super) struct BufferedDeserializer<E> {
    value: Buffered,
    error: PhantomData<E>,
}

impl<'de, E: Error> IntoDeserializer<'de, E> for Buffered {
    type Deserializer = BufferedDeserializer<E>;

    fn into_deserializer(self) -> BufferedDeserializer<E> {
        BufferedDeserializer {
            value: self,
            error: PhantomData,
        }
    }
}

impl<'de, E: Error> Deserializer<'de> for BufferedDeserializer<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.value {
            Buffered::Null => visitor.visit_unit(),
            Buffered::Bool(value) => visitor.visit_bool(value),
            Buffered::Int(value) => visitor.visit_i64(value),
            Buffered::Uint(value) => visitor.visit_u64(value),
            Buffered::Float(value) => visitor.visit_f64(value),
            Buffered::Text(value) => visitor.visit_string(value),
            Buffered::List(values) => visitor.visit_seq(SeqDeserializer::new(values.into_iter())),
            Buffered::Map(entries) => visitor.visit_map(MapDeserializer::new(entries.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.value {
            Buffered::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
