//! Encoded bodies that many responses share.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::form::Form;
use super::resource::Resource;
use super::wire::removal_field;

/// The part of a response that is the same on every stream: complete fields of the message, encoded.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// Encoded fields.
    pub bytes: Bytes,
    /// Number of elements of `resources` in `bytes`.
    pub resources: usize,
    /// Number of elements of `removed_resources` in `bytes`.
    pub removed: usize,
}

impl Body {
    /// Encodes resources as elements of `resources`, in one or more bodies of at most `limit` bytes.
    ///
    /// A resource that is larger than the limit gets a body of its own: none is split (S-50).
    pub(super) fn upserts<'a>(
        resources: impl Iterator<Item = &'a Arc<Resource>>,
        form: Form,
        limit: usize,
    ) -> Arc<[Body]> {
        let mut bodies = BodyBuilder::new(limit);
        for resource in resources {
            bodies.push(&resource.element(form)).resources += 1;
        }
        bodies.finish()
    }

    /// Encodes names as elements of `removed_resources`, in one or more bodies of at most `limit` bytes.
    pub(super) fn removals<'a>(
        names: impl Iterator<Item = &'a Arc<str>>,
        limit: usize,
    ) -> Arc<[Body]> {
        let mut bodies = BodyBuilder::new(limit);
        let mut element = BytesMut::new();
        for name in names {
            element.clear();
            removal_field(&mut element, name);
            bodies.push(&element).removed += 1;
        }
        bodies.finish()
    }

    /// Returns whether one response has room for both bodies.
    pub(crate) fn fits_with(&self, other: &Self, limit: usize) -> bool {
        self.bytes.len() + other.bytes.len() <= limit
    }
}

/// Fills bodies one after the other.
struct BodyBuilder {
    full: Vec<Body>,
    bytes: BytesMut,
    /// Counts of the body that is being filled; its bytes are in `bytes`.
    last: Body,
    limit: usize,
}

impl BodyBuilder {
    fn new(limit: usize) -> Self {
        Self {
            full: Vec::new(),
            bytes: BytesMut::new(),
            last: Body::default(),
            limit,
        }
    }

    /// Adds an element. Returns the body that has it, so that the caller counts it there.
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
