//! Fields of `discovery.proto`, written by hand so that a resource is encoded once for both protocol variants.
//!
//! `resources` is field 2 of both responses, and the body is field 2 of `Resource`. So the element of a SotW response
//! is, byte for byte, the tail of the element of a delta response.

use bytes::{BufMut, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// `resources` of both responses.
pub(super) const RESOURCES: u32 = 2;
/// `DeltaDiscoveryResponse.removed_resources`.
pub(super) const REMOVED_RESOURCES: u32 = 6;
/// `Resource.version`.
pub(super) const RESOURCE_VERSION: u32 = 1;
/// `Resource.resource`.
pub(super) const RESOURCE_BODY: u32 = 2;
/// `Resource.name`.
pub(super) const RESOURCE_NAME: u32 = 3;
/// `Resource.aliases`.
pub(super) const RESOURCE_ALIASES: u32 = 4;
/// `Resource.ttl`.
pub(super) const RESOURCE_TTL: u32 = 6;
/// `Any.type_url`.
pub(super) const ANY_TYPE_URL: u32 = 1;
/// `Any.value`.
pub(super) const ANY_VALUE: u32 = 2;

/// Returns the length of a length-delimited field with `len` bytes, key and length included.
pub(crate) fn field_len(field: u32, len: usize) -> usize {
    key_len(field) + encoded_len_varint(len as u64) + len
}

/// Writes a length-delimited field.
pub(crate) fn put_field(out: &mut BytesMut, field: u32, bytes: &[u8]) {
    put_header(out, field, bytes.len());
    out.put_slice(bytes);
}

/// Writes key and length of a length-delimited field; the caller writes its `len` bytes.
pub(super) fn put_header(out: &mut BytesMut, field: u32, len: usize) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

/// Returns the length of one element of `removed_resources`.
pub(crate) fn removal_len(name: &str) -> usize {
    field_len(REMOVED_RESOURCES, name.len())
}

/// Writes one element of `removed_resources`, for a removal that only one stream gets.
pub(crate) fn removal_field(out: &mut BytesMut, name: &str) {
    put_field(out, REMOVED_RESOURCES, name.as_bytes());
}
