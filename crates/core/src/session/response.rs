//! Encoded responses.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use oxds_types::{
    ApiVersion, ResourceType, Version,
    discovery::{ParametrizedName, ResourceError, Status},
};
use prost::Message as _;
use smallvec::SmallVec;

use super::{Nonce, ResourceErrorDetail};
use crate::{
    frame::Frame,
    snapshot::{Body, Protocol, removal_field},
};

/// A response, ready to be written to the stream.
#[derive(Debug, Clone)]
pub struct TransmitResponse {
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// API version of the message.
    pub api: ApiVersion,
    /// Nonce, unique on the stream (S-28).
    pub nonce: Nonce,
    /// Value of `version_info` or `system_version_info`.
    pub version: Version,
    /// Number of resources.
    pub resources: usize,
    /// Number of removed names.
    pub removed: usize,
    /// Encoded message with its gRPC header.
    pub frame: Frame,
}

/// Response under construction: shared parts, and elements of this stream.
#[derive(Debug)]
pub(super) struct ResponseBuilder {
    protocol: Protocol,
    shared: SmallVec<[Bytes; 2]>,
    /// Elements of `removed_resources` and of `resource_errors`.
    own: BytesMut,
    pub(super) resources: usize,
    pub(super) removed: usize,
    errors: usize,
    bytes: usize,
}

/// Fields of a response besides its resources.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) type_url: &'a str,
    pub(super) version: Version,
    pub(super) nonce: Nonce,
    /// `control_plane.identifier`; left out if empty.
    pub(super) identifier: &'a str,
}

impl ResponseBuilder {
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

    /// Reserves memory for this many elements.
    pub(super) fn expect(&mut self, elements: usize) {
        self.shared.reserve_exact(elements);
    }

    pub(super) fn push_body(&mut self, body: &Body) {
        self.resources += body.resources;
        self.removed += body.removed;
        self.push(body.bytes.clone());
    }

    /// Adds an element of `resources`; returns false if it does not fit.
    pub(super) fn try_push_element(&mut self, element: Bytes, limit: usize) -> bool {
        let fits = self.has_room_for(element.len(), limit);
        if fits {
            self.resources += 1;
            self.push(element);
        }
        fits
    }

    /// Adds an element of `resource_errors`; returns false if it does not fit.
    pub(super) fn try_push_error(
        &mut self,
        name: &str,
        detail: &ResourceErrorDetail,
        limit: usize,
    ) -> bool {
        let room = name.len() + detail.message.len() + 32;
        if !self.has_room_for(room, limit) {
            return false;
        }
        let error = ResourceError {
            resource_name: Some(ParametrizedName {
                name: name.to_owned(),
                ..ParametrizedName::default()
            }),
            error_detail: Some(Status {
                code: detail.code as i32,
                message: detail.message.clone(),
                ..Status::default()
            }),
        };
        let field = Fields::of(self.protocol).resource_errors;
        let before = self.own.len();
        crate::snapshot::put_field(&mut self.own, field, &error.encode_to_vec());
        self.bytes += self.own.len() - before;
        self.errors += 1;
        true
    }

    /// Adds an element of `removed_resources`; returns false if it does not fit.
    pub(super) fn try_push_removal(&mut self, name: &Arc<str>, limit: usize) -> bool {
        let fits = self.has_room_for(crate::snapshot::removal_len(name), limit);
        if fits {
            self.push_removal(name);
        }
        fits
    }

    pub(super) fn push_removal(&mut self, name: &Arc<str>) {
        self.removed += 1;
        let before = self.own.len();
        removal_field(&mut self.own, name);
        self.bytes += self.own.len() - before;
    }

    /// Whether an element of this many bytes fits. In an empty response every element fits, as none can be split.
    fn has_room_for(&self, bytes: usize, limit: usize) -> bool {
        self.is_empty() || self.bytes + bytes <= limit
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
        let mut own = Frame::start(self.own.len() + 192);
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

        Frame::finish(own, self.shared)
    }
}

/// Field number of `ControlPlane.identifier`.
const IDENTIFIER: u32 = 1;

/// Field numbers of `discovery.proto` that differ between the two responses.
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
