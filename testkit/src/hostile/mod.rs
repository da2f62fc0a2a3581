//! Clients that are hostile or faulty.
//!
//! | | speaks | is for |
//! |---|---|---|
//! | [`Rude`] | HTTP/2, by the `h2` crate | floods, resets, readers that never read, peers that fall silent |
//! | [`Wire`] | bytes | frames that no HTTP/2 library would write |
//!
//! Neither knows gRPC beyond its framing: the test decides what is sent.

mod rude;
mod wire;

pub use rude::{Call, Ended, Rude};
pub use wire::{Wire, frame};

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;

/// Returns a message with its gRPC prefix.
///
/// # Panics
/// If the message has 4 GiB or more.
#[must_use]
pub fn framed(message: &impl Message) -> Bytes {
    let body = message.encode_to_vec();
    let mut bytes = BytesMut::with_capacity(5 + body.len());
    bytes.put_u8(0);
    bytes.put_u32(body.len() as u32);
    bytes.extend_from_slice(&body);
    bytes.freeze()
}
