//! gRPC frames in parts, so that bytes which many streams share are never copied.

use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

/// A length-prefixed gRPC message: `[header, fields of this stream][shared fields …]`.
///
/// Protobuf allows fields in any order and concatenates repeated ones. So the nonce, which alone differs between
/// streams, is written next to the header, and all bytes after it are shared. Read the frame as a [`Buf`]: no part is
/// copied.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    own: BytesMut,
    /// In reverse order: the next part to read is the last one.
    shared: SmallVec<[Bytes; 2]>,
    /// Bytes that are not read yet.
    len: usize,
}

/// Length of the gRPC message prefix: one byte for the compression flag, four for the length.
const HEADER: usize = 5;

impl Frame {
    /// Starts a message: room for the gRPC header, and for `capacity` bytes of this stream.
    pub(crate) fn start(capacity: usize) -> BytesMut {
        let mut own = BytesMut::with_capacity(HEADER + capacity);
        own.put_bytes(0, HEADER);
        own
    }

    /// Completes a message that [`start`](Self::start) began, with the shared parts that follow.
    pub(crate) fn finish(mut own: BytesMut, mut shared: SmallVec<[Bytes; 2]>) -> Self {
        let len = own.len() + shared.iter().map(Bytes::len).sum::<usize>();
        // gRPC has 32 bits for the length. A larger message cannot be sent: its length is cut, and the client rejects
        // it.
        let prefix = u32::try_from(len - HEADER).unwrap_or(u32::MAX);
        own[1..HEADER].copy_from_slice(&prefix.to_be_bytes());
        shared.reverse();
        Self { own, shared, len }
    }

    /// Returns the number of bytes left to read, gRPC header included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the parts that are shared with other streams, in order.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.shared.iter().rev()
    }

    /// Takes the next bytes to write: a shared part itself if it has at least `large` bytes, or else a copy of at
    /// most `large` bytes that come before the next such part. Returns `None` at the end.
    pub fn next_piece(&mut self, large: usize) -> Option<Bytes> {
        if self.is_empty() {
            return None;
        }
        let is_large = |part: &Bytes| part.len() >= large;
        if self.own.is_empty() && self.shared.last().is_some_and(is_large) {
            let part = self.shared.pop()?;
            self.len -= part.len();
            return Some(part);
        }
        let small = self.shared().take_while(|part| !is_large(part));
        let small = self.own.len() + small.map(Bytes::len).sum::<usize>();
        Some(self.copy_to_bytes(small.min(large)))
    }

    /// Returns a copy of the protobuf message in one piece, without the gRPC header: for tests, and for transports
    /// that cannot gather.
    #[must_use]
    pub fn message(&self) -> Bytes {
        let mut whole = self.clone();
        whole.advance(HEADER.min(whole.len));
        let len = whole.remaining();
        whole.copy_to_bytes(len)
    }
}

impl Buf for Frame {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        match &*self.own {
            [] => self.shared.last().map_or(&[], |part| part),
            own => own,
        }
    }

    fn advance(&mut self, mut by: usize) {
        assert!(by <= self.len, "advanced beyond the end");
        self.len -= by;
        let of_own = by.min(self.own.len());
        self.own.advance(of_own);
        by -= of_own;
        while let Some(part) = self.shared.last_mut() {
            if by < part.len() {
                part.advance(by);
                return;
            }
            by -= part.len();
            self.shared.pop();
        }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let own = Some(&*self.own).filter(|own| !own.is_empty());
        let parts = own.into_iter().chain(self.shared().map(|part| &**part));
        let mut filled = 0;
        for (slot, part) in into.iter_mut().zip(parts) {
            *slot = IoSlice::new(part);
            filled += 1;
        }
        filled
    }
}
