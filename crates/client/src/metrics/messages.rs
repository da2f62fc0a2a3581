//! Bytes of the messages in a stream of gRPC (gRPC over HTTP/2, "Length-Prefixed-Message").

/// Length of the compression flag and the message length before each message.
const PREFIX: usize = 5;

/// Counter of the bytes of messages, compressed and without their prefixes.
#[derive(Debug, Default)]
pub struct MessageBytes {
    /// The first bytes of the current prefix.
    prefix: [u8; PREFIX],
    /// Number of bytes in `prefix`.
    filled: usize,
    /// Number of bytes of the current message that are still to come.
    left: usize,
    total: u64,
}

impl MessageBytes {
    /// Counts a part of the stream, which may begin and end anywhere in a message.
    pub fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.left > 0 {
                let part = self.left.min(data.len());
                self.left -= part;
                self.total += part as u64;
                data = &data[part..];
                continue;
            }
            let part = (PREFIX - self.filled).min(data.len());
            self.prefix[self.filled..][..part].copy_from_slice(&data[..part]);
            self.filled += part;
            data = &data[part..];
            if self.filled == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
                self.filled = 0;
            }
        }
    }

    /// Returns the bytes so far.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c260_messages_are_counted_without_prefixes() {
        let stream = [
            0, 0, 0, 0, 3, b'a', b'b', b'c', 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,
        ];
        for size in 1..stream.len() {
            let mut bytes = MessageBytes::default();
            stream.chunks(size).for_each(|part| bytes.add(part));
            assert_eq!(bytes.total(), 5, "in parts of {size}");
        }
    }

    #[test]
    fn c260_incomplete_message_counts_so_far() {
        let mut bytes = MessageBytes::default();
        bytes.add(&[0, 0, 0, 1, 0, 7, 7]);
        assert_eq!(bytes.total(), 2);
        bytes.add(&[7]);
        assert_eq!(bytes.total(), 3);
    }
}
