//! Nodes of the canonical encoding: `tag varint | length varint | bytes`, one after the other.

/// Bytes of one node.
#[derive(Debug, Default)]
pub(super) struct CanonicalNode(Vec<u8>);

impl CanonicalNode {
    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        varint(&mut self.0, tag.into());
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, tag: u32, text: &str) {
        self.bytes(tag, text.as_bytes());
    }

    /// Appends a number in zigzag form, so that small negative numbers stay short.
    pub(super) fn number(&mut self, tag: u32, number: i32) {
        let number = i64::from(number);
        let mut bytes = Vec::with_capacity(5);
        varint(&mut bytes, ((number << 1) ^ (number >> 63)) as u64);
        self.bytes(tag, &bytes);
    }

    /// Appends an empty node if `on` is true, otherwise nothing.
    pub(super) fn flag(&mut self, tag: u32, on: bool) {
        if on {
            self.bytes(tag, &[]);
        }
    }

    /// Appends a nested node, or nothing if it is empty.
    pub(super) fn optional(&mut self, tag: u32, inner: &[u8]) {
        if !inner.is_empty() {
            self.bytes(tag, inner);
        }
    }

    /// Appends several nested nodes with one tag.
    pub(super) fn all(&mut self, tag: u32, inner: impl IntoIterator<Item = Vec<u8>>) {
        for node in inner {
            self.bytes(tag, &node);
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Appends a protobuf varint: seven bits per byte, the lowest first.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
