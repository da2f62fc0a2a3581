//! Reading of nodes into serde types. Each error has the position of the innermost value or key that it is about.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer, U32Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::error::SettingsError;
use crate::located;
use crate::node::{Entry, Node, Plain, Value};
use crate::position::Position;

impl Node {
    /// Returns the text, also of a plain value.
    fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Plain { text, .. } => Some(text),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Adds the position of this node to an error that has none.
    fn locate<T>(&self, result: Result<T, SettingsError>) -> Result<T, SettingsError> {
        result.map_err(|error| error.at(self.position))
    }

    fn expected(&self, expected: &str) -> SettingsError {
        SettingsError::custom(format_args!("expected {expected}")).at(self.position)
    }
}

impl Plain {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self {
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Signed(value) => visitor.visit_i64(value),
            Self::Unsigned(value) => visitor.visit_u64(value),
            Self::Float(value) => visitor.visit_f64(value),
        }
    }
}

/// Numbers of all widths are read alike: the visitor checks the range.
macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
            match &self.value {
                Value::Plain { value: Plain::Bool(_), .. } => Err(self.expected("a number")),
                Value::Plain { value, .. } => self.locate(value.visit(visitor)),
                _ => Err(self.expected("a number")),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = SettingsError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        self.locate(match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Plain { value, .. } => value.visit(visitor),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items)),
            Value::Map(entries) => visitor.visit_map(Entries::new(entries)),
        })
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match &self.value {
            Value::Plain {
                value: Plain::Bool(value),
                ..
            } => visitor.visit_bool(*value),
            _ => Err(self.expected("`true` or `false`")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.text() {
            Some(text) => self.locate(visitor.visit_borrowed_str(text)),
            None => Err(self.expected("a string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.locate(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.value {
            Value::List(_) => self.deserialize_any(visitor),
            // A key whose items are all commented out.
            Value::Null => self.locate(visitor.visit_seq(Items(&[]))),
            _ => Err(self.expected("a list (`- item`)")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        if name != located::NAME {
            return self.deserialize_seq(visitor);
        }
        let Position { line, column } = self.position;
        visitor.visit_seq(LocatedParts {
            numbers: [line, column].into_iter(),
            value: Some(self),
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.value {
            Value::Map(_) => self.deserialize_any(visitor),
            Value::Null => self.locate(visitor.visit_map(Entries::new(&[]))),
            _ => Err(self.expected("a mapping (`key: value`)")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_map(visitor)
    }

    /// Enums are names: no file of settings has one with values.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        let text = self.text().ok_or_else(|| self.expected("a string"))?;
        let name: StrDeserializer<'_, SettingsError> = text.into_deserializer();
        self.locate(visitor.visit_enum(name))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit unit_struct identifier }
}

/// The items of a list.
struct Items<'de>(&'de [Node]);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = SettingsError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SettingsError> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        self.0 = rest;
        seed.deserialize(first).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a mapping.
struct Entries<'de> {
    rest: &'de [Entry],
    /// The value of the key that was read last.
    value: Option<&'de Node>,
}

impl<'de> Entries<'de> {
    fn new(entries: &'de [Entry]) -> Self {
        Self {
            rest: entries,
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = SettingsError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, SettingsError> {
        let Some((first, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        self.value = Some(&first.value);
        let key = BorrowedStrDeserializer::<SettingsError>::new(&first.key);
        let key = seed.deserialize(key);
        key.map(Some).map_err(|error| error.at(first.position))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, SettingsError> {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(SettingsError::custom("expected a key before its value")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The parts of a [`Located`](crate::Located): line, column and value.
struct LocatedParts<'de> {
    numbers: std::array::IntoIter<u32, 2>,
    value: Option<&'de Node>,
}

impl<'de> SeqAccess<'de> for LocatedParts<'de> {
    type Error = SettingsError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SettingsError> {
        if let Some(number) = self.numbers.next() {
            let number: U32Deserializer<SettingsError> = number.into_deserializer();
            return seed.deserialize(number).map(Some);
        }
        let value = self.value.take();
        value.map(|value| seed.deserialize(value)).transpose()
    }
}
