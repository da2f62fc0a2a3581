//! A gRPC message in parts, so that what many streams share is never copied.

use std::{io::IoSlice, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use oxds_types::{
    ApiVersion, ResourceType, Version,
    discovery::{ParametrizedName, ResourceError, Status},
};
use prost::Message as _;
use smallvec::SmallVec;

use super::{Nonce, ResourceErrorDetail};
use crate::snapshot::{Body, Protocol, removal_field};

/// A response, ready to be written to the stream.
#[derive(Debug, Clone)]
pub struct TransmitResponse {
    /// The kind of its resources.
    pub resource_type: ResourceType,
    /// The version of the API in which it is.
    pub api: ApiVersion,
    /// Its nonce: unique on the stream (S-28).
    pub nonce: Nonce,
    /// Its `version_info` or `system_version_info`.
    pub version: Version,
    /// Resources in it.
    pub resources: usize,
    /// Removed names in it.
    pub removed: usize,
    /// Its bytes.
    pub frame: Frame,
}

/// A length-prefixed gRPC message: `[header, fields of this stream][shared fields …]`.
///
/// Protobuf lets fields stand in any order and concatenates repeated ones, so the nonce, the only thing that differs
/// from stream to stream, stands with the header, and all after it is shared. Read it as a [`Buf`]: no part is copied.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    own: BytesMut,
    /// Written from the end of the reading: the next part is the last one here.
    shared: SmallVec<[Bytes; 2]>,
    /// Bytes left.
    len: usize,
}

/// The gRPC message prefix: one byte that says "not compressed", four of length.
const HEADER: usize = 5;

impl Frame {
    /// Bytes of the whole, the gRPC header included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is left to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts that other streams have too, in order.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.shared.iter().rev()
    }

    /// Takes the next bytes to be written: a shared part as it is, if it is `large`, or else a copy of what comes before
    /// the next large one, of as many bytes at the most. `None` at the end.
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

    /// The protobuf message in one piece: for tests, and for transports that cannot gather.
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

/// Puts a response together.
#[derive(Debug)]
pub(super) struct Response {
    protocol: Protocol,
    shared: SmallVec<[Bytes; 2]>,
    /// Elements of `removed_resources` and of `resource_errors` that concern this stream only.
    own: BytesMut,
    pub(super) resources: usize,
    pub(super) removed: usize,
    errors: usize,
    pub(super) bytes: usize,
}

/// What stands in a response besides its resources.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) type_url: &'a str,
    pub(super) version: Version,
    pub(super) nonce: Nonce,
    /// RequestedNames this control plane; empty: it is left out.
    pub(super) identifier: &'a str,
}

impl Response {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            shared: SmallVec::new(),
            own: BytesMut::new(),
            resources: 0,
            removed: 0,
            errors: 0,
            bytes: 0,
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Makes room for so many elements.
    pub(super) fn expect(&mut self, elements: usize) {
        self.shared.reserve_exact(elements);
    }

    pub(super) fn push_body(&mut self, body: &Body) {
        self.resources += body.resources;
        self.removed += body.removed;
        self.push(body.bytes.clone());
    }

    pub(super) fn push_element(&mut self, element: Bytes) {
        self.resources += 1;
        self.push(element);
    }

    /// Why the client does not get a resource.
    pub(super) fn push_error(&mut self, name: &str, refusal: &ResourceErrorDetail) {
        let error = ResourceError {
            resource_name: Some(ParametrizedName {
                name: name.to_owned(),
                ..ParametrizedName::default()
            }),
            error_detail: Some(Status {
                code: refusal.code as i32,
                message: refusal.message.clone(),
                ..Status::default()
            }),
        };
        let field = Fields::of(self.protocol).resource_errors;
        let before = self.own.len();
        crate::snapshot::put_field(&mut self.own, field, &error.encode_to_vec());
        self.bytes += self.own.len() - before;
        self.errors += 1;
    }

    pub(super) fn push_removal(&mut self, name: &Arc<str>) {
        self.removed += 1;
        let before = self.own.len();
        removal_field(&mut self.own, name);
        self.bytes += self.own.len() - before;
    }

    /// Whether an element of this many bytes may go in as well. In an empty response anything may.
    pub(super) fn has_room_for(&self, bytes: usize, limit: usize) -> bool {
        self.is_empty() || self.bytes + bytes <= limit
    }

    /// Whether the removal of this name may go in as well.
    pub(super) fn has_room_to_remove(&self, name: &str, limit: usize) -> bool {
        self.has_room_for(crate::snapshot::removal_len(name), limit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources == 0 && self.removed == 0 && self.errors == 0
    }

    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.shared.push(bytes);
        }
    }

    pub(super) fn finish(self, envelope: Envelope<'_>) -> Frame {
        let mut own = BytesMut::with_capacity(HEADER + self.own.len() + 192);
        own.put_bytes(0, HEADER);
        own.put_slice(&self.own);
        let fields = Fields::of(self.protocol);
        put_string(&mut own, fields.type_url, envelope.type_url.as_bytes());
        put_string(
            &mut own,
            fields.version,
            envelope.version.as_str().as_bytes(),
        );
        if !envelope.identifier.is_empty() {
            let mut control_plane = BytesMut::with_capacity(envelope.identifier.len() + 8);
            put_string(
                &mut control_plane,
                IDENTIFIER,
                envelope.identifier.as_bytes(),
            );
            put_string(&mut own, fields.control_plane, &control_plane);
        }
        let mut digits = [0; Nonce::DIGITS];
        put_string(
            &mut own,
            fields.nonce,
            envelope.nonce.digits(&mut digits).as_bytes(),
        );

        let shared: usize = self.shared.iter().map(Bytes::len).sum();
        let message = own.len() - HEADER + shared;
        // gRPC has 32 bits for it. A larger message cannot be sent; its length is then cut, and the client refuses it.
        let prefix = u32::try_from(message).unwrap_or(u32::MAX);
        own[1..HEADER].copy_from_slice(&prefix.to_be_bytes());

        let mut shared = self.shared;
        shared.reverse();
        Frame {
            own,
            shared,
            len: HEADER + message,
        }
    }
}

/// `ControlPlane.identifier`.
const IDENTIFIER: u32 = 1;

/// Field numbers of `discovery.proto`, where the two responses differ.
struct Fields {
    version: u32,
    type_url: u32,
    nonce: u32,
    control_plane: u32,
    resource_errors: u32,
}

impl Fields {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Sotw => Self {
                version: 1,
                type_url: 4,
                nonce: 5,
                control_plane: 6,
                resource_errors: 7,
            },
            Protocol::Delta => Self {
                version: 1,
                type_url: 4,
                nonce: 5,
                control_plane: 7,
                resource_errors: 9,
            },
        }
    }
}

fn put_string(out: &mut BytesMut, field: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        crate::snapshot::put_field(out, field, bytes);
    }
}
