//! Encoded bodies that many responses share.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use oxds_types::ApiVersion;

use super::resource::{Resource, put_field};

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
    /// The version in which type URLs are written.
    pub api: ApiVersion,
    /// Whether the client is told of TTLs (S-49).
    pub ttl: bool,
}

impl Form {
    /// How many forms there are.
    pub(super) const COUNT: usize = 8;

    /// A number below [`COUNT`](Self::COUNT).
    pub(super) fn index(self) -> usize {
        let protocol = usize::from(self.protocol == Protocol::Delta);
        4 * usize::from(self.ttl) + 2 * usize::from(self.api == ApiVersion::V2) + protocol
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
        let mut bodies = Vec::new();
        let mut bytes = BytesMut::new();
        let mut count = 0;
        for resource in resources {
            let element = resource.element(form);
            if count > 0 && bytes.len() + element.len() > limit {
                let full = std::mem::take(&mut bytes).freeze();
                bodies.push(Body {
                    bytes: full,
                    resources: count,
                    removed: 0,
                });
                count = 0;
            }
            bytes.extend_from_slice(&element);
            count += 1;
        }
        bodies.push(Body {
            bytes: bytes.freeze(),
            resources: count,
            removed: 0,
        });
        bodies.into()
    }

    /// The names as elements of `removed_resources`.
    pub(super) fn removals<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Body {
        let mut bytes = BytesMut::new();
        let mut removed = 0;
        for name in names {
            put_field(&mut bytes, REMOVED_RESOURCES, name.as_bytes());
            removed += 1;
        }
        Body {
            bytes: bytes.freeze(),
            resources: 0,
            removed,
        }
    }
}

/// `DeltaDiscoveryResponse.removed_resources`.
const REMOVED_RESOURCES: u32 = 6;

/// One element of `removed_resources`, for a removal that concerns one stream only.
pub(crate) fn removal_field(out: &mut BytesMut, name: &str) {
    put_field(out, REMOVED_RESOURCES, name.as_bytes());
}
