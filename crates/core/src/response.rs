//! Writing of discovery responses: shared parts are referred to, and elements of one stream are appended.
//!
//! Protobuf fields may come in any order, so what streams share is not copied.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use oxds_types::{
    ResourceType, Version,
    discovery::{ParametrizedName, ResourceError, Status},
};
use prost::Message as _;
use smallvec::SmallVec;

use crate::{
    frame::Frame,
    nonce::Nonce,
    protocol::Protocol,
    snapshot::{Body, put_field, removal_field, removal_len},
};

/// Status that a client gets in place of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceErrorDetail {
    /// Code that the client acts on.
    pub code: ResourceErrorCode,
    /// Explanation for operators of the client.
    pub message: String,
}

/// Codes of `google.rpc.Code` to which TP3 gives a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceErrorCode {
    /// The resource does not exist: the client may drop its copy.
    NotFound = 5,
    /// The client may not have the resource, and may drop its copy.
    PermissionDenied = 7,
    /// The server has the resource in an invalid form: the client keeps its copy.
    Internal = 13,
    /// The server does not know the state of the resource now: the client keeps its copy.
    Unavailable = 14,
}

impl ResourceErrorDetail {
    /// Creates the detail of a resource that does not exist.
    #[must_use]
    pub fn not_found(resource_type: &ResourceType, name: &str) -> Self {
        Self {
            code: ResourceErrorCode::NotFound,
            message: format!("{resource_type} {name:?} not found"),
        }
    }
}

/// Response under construction: shared parts, and elements of this stream.
#[derive(Debug)]
pub(crate) struct ResponseBuilder {
    protocol: Protocol,
    shared: SmallVec<[Bytes; 2]>,
    /// Elements of `removed_resources` and of `resource_errors`.
    own: BytesMut,
    pub(crate) resources: usize,
    pub(crate) removed: usize,
    errors: usize,
    bytes: usize,
}

impl ResponseBuilder {
    pub(crate) fn new(protocol: Protocol) -> Self {
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
    pub(crate) fn reserve(&mut self, elements: usize) {
        self.shared.reserve_exact(elements);
    }

    pub(crate) fn push_body(&mut self, body: &Body) {
        self.resources += body.resources;
        self.removed += body.removed;
        self.push(body.bytes.clone());
    }

    /// Adds an element of `resources`; returns false if it does not fit.
    pub(crate) fn try_push_element(&mut self, element: Bytes, limit: usize) -> bool {
        let fits = self.has_room_for(element.len(), limit);
        if fits {
            self.resources += 1;
            self.push(element);
        }
        fits
    }

    /// Adds an element of `resource_errors`; returns false if it does not fit.
    pub(crate) fn try_push_error(
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
    pub(crate) fn try_push_removal(&mut self, name: &Arc<str>, limit: usize) -> bool {
        let len = removal_len(name);
        let fits = self.has_room_for(len, limit);
        if fits {
            self.removed += 1;
            self.bytes += len;
            removal_field(&mut self.own, name);
        }
        fits
    }

    /// Whether an element of this many bytes fits. In an empty response every element fits, because elements cannot be
    /// split.
    fn has_room_for(&self, bytes: usize, limit: usize) -> bool {
        self.is_empty() || self.bytes + bytes <= limit
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources == 0 && self.removed == 0 && self.errors == 0
    }

    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.shared.push(bytes);
        }
    }

    /// Completes the message. `identifier`: `control_plane.identifier`; left out if empty.
    pub(crate) fn finish(
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

#[cfg(test)]
mod tests {
    use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};

    use super::*;

    const LIMIT: usize = 64;

    fn finish(response: ResponseBuilder) -> Bytes {
        let nonce = Nonce::default().next();
        response
            .finish("type", Version::of(b"v"), nonce, "me")
            .message()
    }

    #[test]
    fn s50_element_that_does_not_fit_is_left_out() {
        let mut response = ResponseBuilder::new(Protocol::Delta);
        let long: Arc<str> = "x".repeat(2 * LIMIT).into();
        assert!(response.try_push_removal(&long, LIMIT), "alone it fits");
        assert!(!response.try_push_removal(&"b".into(), LIMIT));
        let message = DeltaDiscoveryResponse::decode(finish(response)).unwrap();
        assert_eq!(message.removed_resources, [long.to_string()]);
        assert_eq!((&*message.type_url, &*message.nonce), ("type", "1"));
    }

    #[test]
    fn tp3_resource_error_is_written_in_both_variants() {
        let detail = ResourceErrorDetail::not_found(&ResourceType::CLUSTER, "a");
        for protocol in [Protocol::Sotw, Protocol::Delta] {
            let mut response = ResponseBuilder::new(protocol);
            assert!(response.try_push_error("a", &detail, LIMIT) && !response.is_empty());
            let errors = match protocol {
                Protocol::Sotw => {
                    let message = DiscoveryResponse::decode(finish(response)).unwrap();
                    message.resource_errors
                }
                Protocol::Delta => {
                    let message = DeltaDiscoveryResponse::decode(finish(response)).unwrap();
                    message.resource_errors
                }
            };
            let status = errors[0].error_detail.as_ref().unwrap();
            assert_eq!((status.code, &*status.message), (5, &*detail.message));
        }
    }
}
