//! Encoded messages in pieces: what is written here, and contents that are shared with the cache.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// Contents below this size, in bytes, are copied: a piece of its own costs as much.
const SHARED: usize = 256;
/// Bytes that are written together as one piece.
const PIECE: usize = 16 << 10;

/// An encoded message in pieces.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    len: usize,
    /// Bytes that only this rope has.
    own: usize,
}

/// Returns the length of a field of this many bytes, key and length included.
pub(super) fn field_len(field: u32, len: usize) -> usize {
    key_len(field) + encoded_len_varint(len as u64) + len
}

impl Rope {
    /// Returns the length of the message.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of memory that only this message takes.
    pub(super) fn own(&self) -> usize {
        self.own + self.pieces.len() * size_of::<Bytes>()
    }

    /// Appends the fields of a message, without key and length.
    pub(super) fn fields(&mut self, message: &impl Message) {
        let len = message.encoded_len();
        self.write(len, |tail| message.encode_raw(tail));
    }

    /// Appends key and length of a field; the caller appends its `len` bytes.
    pub(super) fn header(&mut self, field: u32, len: usize) {
        self.write(field_len(field, len) - len, |tail| {
            encode_key(field, WireType::LengthDelimited, tail);
            encode_varint(len as u64, tail);
        });
    }

    /// Appends a field of bytes, which are shared unless they are few.
    pub(super) fn bytes(&mut self, field: u32, bytes: Bytes) {
        self.header(field, bytes.len());
        if bytes.len() < SHARED {
            self.write(bytes.len(), |tail| tail.put_slice(&bytes));
            return;
        }
        self.close_piece();
        self.len += bytes.len();
        self.pieces.push_back(bytes);
    }

    /// Appends a field that holds another message.
    pub(super) fn message(&mut self, field: u32, mut message: Rope) {
        self.header(field, message.len);
        message.close_piece();
        self.close_piece();
        self.len += message.len;
        self.own += message.own;
        self.pieces.append(&mut message.pieces);
    }

    /// Returns the message in pieces, behind the prefix of gRPC. `None` if it is too long for a gRPC message.
    pub(super) fn into_grpc(mut self) -> Option<VecDeque<Bytes>> {
        self.close_piece();
        let mut prefix = BytesMut::with_capacity(5);
        prefix.put_u8(0);
        prefix.put_u32(u32::try_from(self.len).ok()?);
        self.pieces.push_front(prefix.freeze());
        Some(self.pieces)
    }

    fn write(&mut self, len: usize, write: impl FnOnce(&mut BytesMut)) {
        write(&mut self.tail);
        self.len += len;
        self.own += len;
        if self.tail.len() >= PIECE {
            self.close_piece();
        }
    }

    fn close_piece(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::Any;

    use super::*;

    #[test]
    fn s68_rope_is_the_encoded_message_and_shares_contents() {
        let content = Bytes::from(vec![7; 100_000]);
        let mut inner = Rope::default();
        inner.fields(&Any {
            type_url: "t".into(),
            value: Vec::new(),
        });
        inner.bytes(2, content.clone());
        let mut rope = Rope::default();
        rope.bytes(2, Bytes::from_static(b"few"));
        rope.message(3, inner);
        let expected = Any {
            type_url: "t".into(),
            value: content.to_vec(),
        };
        let length = rope.len();
        assert!(rope.own() < 1000, "{}", rope.own());
        let pieces = rope.into_grpc().unwrap();
        assert!(
            pieces
                .iter()
                .any(|piece| piece.as_ptr() == content.as_ptr())
        );
        let bytes: Vec<u8> = pieces.into_iter().flatten().collect();
        assert_eq!(bytes.len(), 5 + length);
        let mut body = vec![2 << 3 | 2, 3, b'f', b'e', b'w'];
        prost::encoding::message::encode(3, &expected, &mut body);
        assert_eq!(bytes[5..], body);
    }
}
