//! Clients that mean no good, or know no better.
//!
//! | | speaks | is for |
//! |---|---|---|
//! | [`Rude`] | HTTP/2, by the `h2` crate | floods, resets, readers that never read, peers that fall silent |
//! | [`Wire`] | bytes | frames that no HTTP/2 library would write |
//!
//! Neither knows gRPC beyond its framing: what is sent is up to the test.

mod rude;
mod wire;

pub use rude::{Call, Ended, Rude};
pub use wire::{Wire, frame};

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;

/// A message with gRPC's prefix.
///
/// # Panics
/// If the message has 4 GiB.
#[must_use]
pub fn framed(message: &impl Message) -> Bytes {
    let body = message.encode_to_vec();
    let mut bytes = BytesMut::with_capacity(5 + body.len());
    bytes.put_u8(0);
    bytes.put_u32(body.len() as u32);
    bytes.extend_from_slice(&body);
    bytes.freeze()
}
