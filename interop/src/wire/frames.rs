//! Just enough HTTP/2 (RFC 9113 §4) to find the gRPC messages in one direction of a connection.

use std::collections::HashMap;

use bytes::{Buf, BytesMut};

/// The connection preface of a client (RFC 9113 §3.4).
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// Frame header: length, type, flags and stream identifier.
const FRAME_HEAD: usize = 9;
/// gRPC prefix: the compressed flag and the length.
const MESSAGE_HEAD: usize = 5;
const DATA: u8 = 0;
const PADDED: u8 = 0x8;

/// Splits one direction's bytes into frames, and each stream's DATA into gRPC messages.
#[derive(Debug)]
pub(super) struct Frames {
    preface: usize,
    pending: BytesMut,
    streams: HashMap<u32, BytesMut>,
}

impl Frames {
    /// The direction from the client, which begins with the preface.
    pub(super) fn of_client() -> Self {
        Self {
            preface: PREFACE,
            ..Self::of_server()
        }
    }

    /// The direction from the server.
    pub(super) fn of_server() -> Self {
        Self {
            preface: 0,
            pending: BytesMut::new(),
            streams: HashMap::new(),
        }
    }

    /// Takes the next bytes; `each` sees every message that they complete. Compressed messages are left out: no peer
    /// compresses unless it is configured to.
    pub(super) fn feed(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        let skipped = self.preface.min(bytes.len());
        self.preface -= skipped;
        self.pending.extend_from_slice(&bytes[skipped..]);
        while let Some((stream, data)) = self.next_data() {
            let buffer = self.streams.entry(stream).or_default();
            buffer.extend_from_slice(&data);
            while let Some((compressed, message)) = next_message(buffer) {
                if !compressed {
                    each(&message);
                }
            }
        }
    }

    /// Returns the next complete DATA frame's stream and payload; other frames are skipped.
    fn next_data(&mut self) -> Option<(u32, BytesMut)> {
        loop {
            let head = self.pending.get(..FRAME_HEAD)?;
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            if self.pending.len() < FRAME_HEAD + length {
                return None;
            }
            self.pending.advance(FRAME_HEAD);
            let mut payload = self.pending.split_to(length);
            if kind != DATA {
                continue;
            }
            if flags & PADDED != 0 && !payload.is_empty() {
                let padding = usize::from(payload.get_u8());
                payload.truncate(payload.len().saturating_sub(padding));
            }
            return Some((stream, payload));
        }
    }
}

fn next_message(buffer: &mut BytesMut) -> Option<(bool, BytesMut)> {
    let head = buffer.get(..MESSAGE_HEAD)?;
    let compressed = head[0] != 0;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if buffer.len() < MESSAGE_HEAD + length {
        return None;
    }
    buffer.advance(MESSAGE_HEAD);
    Some((compressed, buffer.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream];
        bytes.extend_from_slice(payload);
        bytes
    }

    /// given two streams whose messages are split by frames, padding and reads at every byte / then each message is
    /// seen once and whole.
    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[0; 6]));
        bytes.extend(frame(DATA, 0, 1, &[0, 0, 0, 0, 3, b'a']));
        bytes.extend(frame(DATA, PADDED, 3, &[2, 0, 0, 0, 0, 1, b'z', 9, 9]));
        bytes.extend(frame(DATA, 0, 1, &[b'b', b'c', 0, 0, 0, 0, 0]));
        for step in 1..bytes.len() {
            let mut frames = Frames::of_client();
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                frames.feed(part, &mut |message: &[u8]| seen.push(message.to_vec()));
            }
            assert_eq!(
                seen,
                [b"z".to_vec(), b"abc".to_vec(), Vec::new()],
                "cut every {step}"
            );
        }
    }
}
