//! Encoded bodies that many responses share.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use oxds_types::ApiVersion;

use super::resource::{Resource, field_len, put_field};

/// The two variants of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// State of the world: `DiscoveryRequest` and `DiscoveryResponse`.
    Sotw,
    /// Incremental: `DeltaDiscoveryRequest` and `DeltaDiscoveryResponse`.
    Delta,
}

/// How a response is written: sessions of one form share its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form {
    /// The protocol variant.
    pub protocol: Protocol,
    /// The version of the API.
    pub api: ApiVersion,
    /// Whether the client is told of TTLs (S-49).
    pub ttl: bool,
}

impl Form {
    /// How many forms there are of what is in one version of the API.
    pub(super) const COUNT: usize = 4;

    /// A number below [`COUNT`](Self::COUNT).
    pub(super) fn index(self) -> usize {
        let protocol = usize::from(self.protocol == Protocol::Delta);
        2 * usize::from(self.ttl) + protocol
    }
}

/// A part of a response that does not depend on the stream it is sent on: whole fields of the message, encoded.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// The fields.
    pub bytes: Bytes,
    /// Elements of `resources` in them.
    pub resources: usize,
    /// Elements of `removed_resources` in them.
    pub removed: usize,
}

impl Body {
    /// The resources as elements of `resources`, in as many bodies as it takes to keep each below `limit` bytes, and
    /// at least in one. A resource larger than the limit has a body for itself (S-50: none is split).
    pub(super) fn upserts<'a>(
        resources: impl Iterator<Item = &'a Arc<Resource>>,
        form: Form,
        limit: usize,
    ) -> Arc<[Body]> {
        let mut bodies = Packed::new(limit);
        for resource in resources {
            bodies.push(&resource.element(form)).resources += 1;
        }
        bodies.finish()
    }

    /// The names as elements of `removed_resources`, in as many bodies as it takes, and at least in one.
    pub(super) fn removals<'a>(
        names: impl Iterator<Item = &'a Arc<str>>,
        limit: usize,
    ) -> Arc<[Body]> {
        let mut bodies = Packed::new(limit);
        let mut element = BytesMut::new();
        for name in names {
            element.clear();
            removal_field(&mut element, name);
            bodies.push(&element).removed += 1;
        }
        bodies.finish()
    }

    /// Whether both may go in one response.
    pub(crate) fn fits_with(&self, other: &Self, limit: usize) -> bool {
        self.bytes.len() + other.bytes.len() <= limit
    }
}

/// Bodies, filled one after the other.
struct Packed {
    full: Vec<Body>,
    bytes: BytesMut,
    /// What is being filled, but for its bytes.
    last: Body,
    limit: usize,
}

impl Packed {
    fn new(limit: usize) -> Self {
        Self {
            full: Vec::new(),
            bytes: BytesMut::new(),
            last: Body::default(),
            limit,
        }
    }

    /// Adds an element; returns the body that it is in, to be counted there.
    fn push(&mut self, element: &[u8]) -> &mut Body {
        if !self.bytes.is_empty() && self.bytes.len() + element.len() > self.limit {
            self.close();
        }
        self.bytes.extend_from_slice(element);
        &mut self.last
    }

    fn close(&mut self) {
        let bytes = std::mem::take(&mut self.bytes).freeze();
        self.full.push(Body {
            bytes,
            ..std::mem::take(&mut self.last)
        });
    }

    fn finish(mut self) -> Arc<[Body]> {
        self.close();
        self.full.into()
    }
}

/// `DeltaDiscoveryResponse.removed_resources`.
const REMOVED_RESOURCES: u32 = 6;

/// Length of one element of `removed_resources`.
pub(crate) fn removal_len(name: &str) -> usize {
    field_len(REMOVED_RESOURCES, name.len())
}

/// One element of `removed_resources`, for a removal that concerns one stream only.
pub(crate) fn removal_field(out: &mut BytesMut, name: &str) {
    put_field(out, REMOVED_RESOURCES, name.as_bytes());
}
