//! Nodes of the canonical tree: `tag varint | length varint | bytes`, one after the other.

/// The bytes of one node, as it is written.
#[derive(Debug, Default)]
pub(super) struct Node(Vec<u8>);

impl Node {
    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        varint(&mut self.0, tag.into());
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, tag: u32, text: &str) {
        self.bytes(tag, text.as_bytes());
    }

    /// A number in zigzag form, so that small negative ones are short too.
    pub(super) fn number(&mut self, tag: u32, number: i32) {
        let number = i64::from(number);
        let mut bytes = Vec::with_capacity(5);
        varint(&mut bytes, ((number << 1) ^ (number >> 63)) as u64);
        self.bytes(tag, &bytes);
    }

    /// An empty node when `on`, nothing otherwise.
    pub(super) fn flag(&mut self, tag: u32, on: bool) {
        if on {
            self.bytes(tag, &[]);
        }
    }

    /// A node in this one; nothing when it is empty.
    pub(super) fn optional(&mut self, tag: u32, inner: &[u8]) {
        if !inner.is_empty() {
            self.bytes(tag, inner);
        }
    }

    /// Nodes in this one.
    pub(super) fn all(&mut self, tag: u32, inner: impl IntoIterator<Item = Vec<u8>>) {
        for node in inner {
            self.bytes(tag, &node);
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// A varint of protobuf: seven bits a byte, the lowest first.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
