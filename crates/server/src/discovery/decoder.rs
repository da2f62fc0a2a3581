//! gRPC's length-prefixed messages, cut out of a request body.

use bytes::{Buf, Bytes, BytesMut};

use super::error::CallError;

/// The flag that says "compressed", and the length.
const HEAD: usize = 5;

/// A buffer that grew for a longer message than this is let go of with the message. First requests may be long, and
/// the acknowledgements that a stream sends ever after are short.
const KEEP: usize = 4 << 10;

/// Gathers a body's bytes until they make a message.
#[derive(Debug)]
pub(super) struct Decoder {
    buffer: BytesMut,
    limit: usize,
}

impl Decoder {
    /// Messages longer than `limit` end the stream before they are gathered.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            limit,
        }
    }

    /// Takes the body's next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message. Memory grows with what has arrived, not with what a length field promises.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(&[flag, a, b, c, d]) = self.buffer.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        if flag != 0 {
            return Err(CallError::Compressed);
        }
        let (length, limit) = (u32::from_be_bytes([a, b, c, d]) as usize, self.limit);
        if length > limit {
            return Err(CallError::MessageTooLong { length, limit });
        }
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        let message = self.buffer.split_to(length).freeze();
        if length > KEEP {
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some(message))
    }

    /// Whether the body ended within a message.
    pub(super) fn is_torn(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let bytes = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01z";
        for step in 1..bytes.len() {
            let mut decoder = Decoder::new(3);
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                decoder.push(part);
                while let Some(message) = decoder.next().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, [&b"abc"[..], b"", b"z"], "cut every {step}");
            assert!(!decoder.is_torn());
        }
    }

    #[test]
    fn s77_a_long_message_is_refused_by_its_length_alone() {
        let mut decoder = Decoder::new(3);
        decoder.push(b"\0\0\0\0\x04");
        let (length, limit) = (4, 3);
        let refused = CallError::MessageTooLong { length, limit };
        assert_eq!(decoder.next(), Err(refused));
    }

    #[test]
    fn s60_compression_is_refused() {
        let mut decoder = Decoder::new(3);
        decoder.push(b"\x01\0\0\0\x00");
        assert_eq!(decoder.next(), Err(CallError::Compressed));
    }
}
