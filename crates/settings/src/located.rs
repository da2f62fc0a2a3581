//! Values with their positions.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::Position;

/// The name by which the deserializer of this crate recognizes [`Located`].
pub(crate) const NAME: &str = "oxds_settings::Located";

/// A value and the position at which it is written, for errors that are found after reading.
///
/// Only [`read`](crate::read) can deserialize it: other deserializers have no positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<T> {
    /// Position of the value; that of the alias, if the value is one.
    pub position: Position,
    /// The value.
    pub value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple_struct(NAME, 3, Parts(PhantomData))
    }
}

/// Reads line, column and value.
struct Parts<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
    type Value = Located<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its position")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut number = || {
            let number = parts.next_element::<u32>()?;
            number.ok_or_else(|| A::Error::custom("expected a value with its position"))
        };
        let (line, column) = (number()?, number()?);
        let value = parts.next_element()?;
        Ok(Located {
            position: Position { line, column },
            value: value.ok_or_else(|| A::Error::custom("expected a value with its position"))?,
        })
    }
}
