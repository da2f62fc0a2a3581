//! gRPC's framing of messages (PROTOCOL-HTTP2.md): a flag, a length, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

const HEADER: usize = 5;

/// Encodes a message with its gRPC prefix.
pub(super) fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(HEADER + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.extend_from_slice(&message.encode_to_vec());
    frame.freeze()
}

/// Splits received bytes into messages.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    unread: BytesMut,
}

impl Decoder {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.unread.extend_from_slice(data);
    }

    /// Returns the next whole message and its bytes. Bytes that are not such a message are ignored: our own client
    /// sent them.
    pub(super) fn next<M: Message + Default>(&mut self) -> Option<(Bytes, M)> {
        let length = self.unread.get(1..HEADER)?.try_into().ok()?;
        let length = u32::from_be_bytes(length) as usize;
        if self.unread.len() < HEADER + length {
            return None;
        }
        self.unread.advance(HEADER);
        let bytes = self.unread.split_to(length).freeze();
        let message = M::decode(bytes.clone()).ok()?;
        Some((bytes, message))
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::discovery::DiscoveryRequest;

    use super::*;

    #[test]
    fn messages_are_read_whatever_the_chunking() {
        let messages = ["one", "two"].map(|version| DiscoveryRequest {
            version_info: version.to_owned(),
            ..DiscoveryRequest::default()
        });
        let wire = messages.iter().flat_map(encode).collect::<Vec<u8>>();
        for size in 1..wire.len() {
            let mut decoder = Decoder::default();
            let mut read = Vec::new();
            for chunk in wire.chunks(size) {
                decoder.push(chunk);
                let messages = std::iter::from_fn(|| decoder.next::<DiscoveryRequest>());
                read.extend(messages.map(|(_, message)| message));
            }
            assert_eq!(read, messages);
        }
    }
}
