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
    snapshot::{Body, Protocol, put_field, removal_field, removal_len},
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
        if !self.has_room_for(name.len() + detail.message.len() + 32, limit) {
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
        let (field, before) = (errors_field(self.protocol), self.own.len());
        put_field(&mut self.own, field, &error.encode_to_vec());
        self.bytes += self.own.len() - before;
        self.errors += 1;
        true
    }

    /// Adds an element of `removed_resources`; returns false if it does not fit.
    pub(super) fn try_push_removal(&mut self, name: &Arc<str>, limit: usize) -> bool {
        let len = removal_len(name);
        let fits = self.has_room_for(len, limit);
        if fits {
            self.removed += 1;
            self.bytes += len;
            removal_field(&mut self.own, name);
        }
        fits
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

    /// Completes the message. `identifier`: `control_plane.identifier`; left out if empty.
    pub(super) fn finish(
        self,
        type_url: &str,
        version: Version,
        nonce: Nonce,
        identifier: &str,
    ) -> Frame {
        let mut own = Frame::start(self.own.len() + 192);
        own.put_slice(&self.own);
        put_string(&mut own, TYPE_URL, type_url);
        put_string(&mut own, VERSION, version.as_str());
        if !identifier.is_empty() {
            let mut control_plane = BytesMut::with_capacity(identifier.len() + 8);
            put_string(&mut control_plane, IDENTIFIER, identifier);
            put_string(&mut own, control_plane_field(self.protocol), control_plane);
        }
        let mut digits = [0; Nonce::DIGITS];
        put_string(&mut own, NONCE, nonce.digits(&mut digits));
        Frame::finish(own, self.shared)
    }
}

// Field numbers of `discovery.proto`; two differ between the two responses.
const VERSION: u32 = 1;
const TYPE_URL: u32 = 4;
const NONCE: u32 = 5;
/// Field number of `ControlPlane.identifier`.
const IDENTIFIER: u32 = 1;

fn control_plane_field(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Sotw => 6,
        Protocol::Delta => 7,
    }
}

fn errors_field(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Sotw => 7,
        Protocol::Delta => 9,
    }
}

fn put_string(out: &mut BytesMut, field: u32, value: impl AsRef<[u8]>) {
    let value = value.as_ref();
    if !value.is_empty() {
        put_field(out, field, value);
    }
}
