//! The fields of an encoded message, as the decoder finds them.

use prost::DecodeError;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// Returns number and body of the next field, no body for fields without a length; `None` at the end and where the
/// bytes are malformed.
///
/// `is_map`: whether a number is that of a map. `prost` and `prost-reflect` read the entries of a map as
/// length-delimited, whatever their wire type. A measure that takes them for something else misses them, and all that
/// follows.
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

/// One occurrence of a field in an encoded message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrence<'a> {
    pub(crate) number: u32,
    pub(crate) wire: WireType,
    /// The field with its key.
    pub(crate) whole: &'a [u8],
    /// The field without its key, without its length if it has one, and without the end of its group.
    pub(crate) body: &'a [u8],
}

/// Reads the next occurrence of a field. `is_map` as for [`next`]; an entry of a map is always length-delimited.
pub(crate) fn occurrence<'a>(
    input: &mut &'a [u8],
    is_map: impl Fn(u32) -> bool,
) -> Result<Occurrence<'a>, DecodeError> {
    let start = *input;
    let (number, mut wire) = decode_key(input)?;
    let inner = *input;
    let body = if wire == WireType::LengthDelimited || is_map(number) {
        wire = WireType::LengthDelimited;
        skip_field(wire, number, input, DecodeContext::default())?;
        let mut body = inner;
        decode_varint(&mut body)?;
        &body[..body.len() - input.len()]
    } else if wire == WireType::StartGroup {
        let end = skip_group(number, input)?;
        &inner[..inner.len() - end]
    } else {
        skip_field(wire, number, input, DecodeContext::default())?;
        &inner[..inner.len() - input.len()]
    };
    Ok(Occurrence {
        number,
        wire,
        whole: &start[..start.len() - input.len()],
        body,
    })
}

/// Skips a group with its end, and returns the number of bytes that were left before the end.
fn skip_group(number: u32, input: &mut &[u8]) -> Result<usize, DecodeError> {
    let inner = *input;
    skip_field(
        WireType::StartGroup,
        number,
        input,
        DecodeContext::default(),
    )?;
    let mut rest = &inner[..inner.len() - input.len()];
    let after = input.len();
    loop {
        let end = rest.len() + after;
        let (inside, wire) = decode_key(&mut rest)?;
        if wire == WireType::EndGroup {
            return Ok(end);
        }
        skip_field(wire, inside, &mut rest, DecodeContext::default())?;
    }
}

/// Appends a length-delimited field.
pub(crate) fn put(number: u32, body: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}
