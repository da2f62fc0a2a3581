//! Name of an encoded resource, read without decoding the whole message.

use std::borrow::Cow;

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::Invalid;

/// Returns field 1, which is the name in every resource type that has one; empty if it is not set.
///
/// The name is borrowed if it is the first field, as encoders write it. Otherwise the message is decoded.
///
/// # Errors
/// The bytes are not a message, or field 1 is not a string.
pub fn own_name(value: &[u8]) -> Result<Cow<'_, str>, Invalid> {
    match first_field(value) {
        Some(name) => Ok(Cow::Borrowed(name)),
        None => Ok(Cow::Owned(NameField::decode(value)?.name)),
    }
}

#[derive(Clone, PartialEq, Message)]
struct NameField {
    #[prost(string, tag = "1")]
    name: String,
}

fn first_field(value: &[u8]) -> Option<&str> {
    let mut rest = value;
    let (1, WireType::LengthDelimited) = decode_key(&mut rest).ok()? else {
        return None;
    };
    let len = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
    let start = value.len() - rest.len();
    std::str::from_utf8(value.get(start..start.checked_add(len)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_name_is_found_at_any_position() {
        for (bytes, name) in [
            (&b"\x0a\x01a\x12\x01b"[..], Some("a")),
            (b"\x12\x01b\x0a\x01a", Some("a")),
            (b"\x12\x01b", Some("")),
            (b"", Some("")),
            (b"\x0a\x05a", None),
            (b"\x08\x01", None),
            (b"\xff\xff\xff", None),
        ] {
            assert_eq!(own_name(bytes).ok().as_deref(), name, "{bytes:?}");
        }
    }
}
