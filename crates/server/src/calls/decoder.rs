//! Decoder of gRPC framing: length-prefixed messages out of a request body.

use bytes::{Buf, Bytes, BytesMut};

use super::error::CallError;

/// Length of the prefix: one byte of flags, four bytes of length.
const PREFIX: usize = 5;

/// Buffer size, in bytes, that a stream keeps. A buffer that grew for a longer message is freed with the message: first
/// requests may be long, and the ACKs after them are short.
const KEEP: usize = 4 << 10;

/// Collects the bytes of a body until they are a complete message.
#[derive(Debug)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    limit: usize,
}

impl Decoder {
    /// Returns a decoder that rejects messages of more than `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            limit,
        }
    }

    /// Adds the next bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` until it has arrived.
    ///
    /// Memory grows with the bytes that have arrived, not with the length in the prefix.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(&[flag, a, b, c, d]) = self.buffer.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        if flag != 0 {
            return Err(CallError::Compressed);
        }
        let (length, limit) = (u32::from_be_bytes([a, b, c, d]) as usize, self.limit);
        if length > limit {
            return Err(CallError::MessageTooLong { length, limit });
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let message = self.buffer.split_to(length).freeze();
        if length > KEEP {
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some(message))
    }

    /// Returns the bytes that the decoder keeps.
    pub(crate) fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether an incomplete message is left, which is an error at the end of the body.
    pub(crate) fn has_partial_message(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_at_any_chunk_size() {
        let bytes = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01z";
        for size in 1..bytes.len() {
            let mut decoder = Decoder::new(3);
            let mut seen = Vec::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk);
                while let Some(message) = decoder.next().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, [&b"abc"[..], b"", b"z"], "chunks of {size} bytes");
            assert!(!decoder.has_partial_message());
        }
    }

    #[test]
    fn s77_long_message_is_rejected_by_its_prefix() {
        let mut decoder = Decoder::new(3);
        decoder.push(b"\0\0\0\0\x04");
        let (length, limit) = (4, 3);
        let error = CallError::MessageTooLong { length, limit };
        assert_eq!(decoder.next(), Err(error));
    }

    #[test]
    fn s60_compressed_message_is_rejected() {
        let mut decoder = Decoder::new(3);
        decoder.push(b"\x01\0\0\0\x00");
        assert_eq!(decoder.next(), Err(CallError::Compressed));
    }
}
