//! The fields of an encoded message, as the decoder finds them.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Returns number and body of the next field, no body for fields without a length; `None` at the end and where the bytes
/// are malformed.
///
/// `is_map`: whether a number is that of a map. `prost` and `prost-reflect` read the entries of a map as length-delimited,
/// whatever their wire type. A measure that takes them for something else misses them, and all that follows.
pub(crate) fn next<'a>(
    input: &mut &'a [u8],
    is_map: impl Fn(u32) -> bool,
) -> Option<(u32, Option<&'a [u8]>)> {
    if input.is_empty() {
        return None;
    }
    let (number, wire) = decode_key(input).ok()?;
    if wire != WireType::LengthDelimited && !is_map(number) {
        skip_field(wire, number, input, DecodeContext::default()).ok()?;
        return Some((number, None));
    }
    let length = usize::try_from(decode_varint(input).ok()?).ok()?;
    let (body, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some((number, Some(body)))
}
