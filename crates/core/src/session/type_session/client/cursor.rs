//! Position of a wildcard client: two collections, however large they are.

use std::sync::Arc;

use oxds_types::Version;

use crate::{
    session::type_session::{split::SplitResponse, step::Step},
    snapshot::{ResourceSet, TypeSnapshot},
};

/// Position of a wildcard client. Both collections are equal when it is in sync.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// ResourceSet that the latest response leads to; `None`: all resources have to be sent.
    pub(crate) sent: Option<Arc<ResourceSet>>,
    /// ResourceSet that the client accepted.
    pub(crate) acked: Option<Arc<ResourceSet>>,
    /// SotW: version of the latest response. Differs from that of `sent` while removals are held.
    pub(crate) version: Option<Version>,
    /// Delta: parts of a split response that are still to be sent.
    pub(crate) unsent: Option<SplitResponse>,
}

impl Cursor {
    /// Position of a client that has this collection and accepted it.
    pub(crate) fn in_sync(at: &Arc<ResourceSet>) -> Self {
        Self {
            sent: Some(Arc::clone(at)),
            acked: Some(Arc::clone(at)),
            version: Some(at.version()),
            unsent: None,
        }
    }

    /// Content between the cursor and `head`.
    pub(crate) fn step(&self, head: &TypeSnapshot) -> Step {
        match &self.sent {
            Some(sent) if sent.revision() == head.collection().revision() => Step::InSync,
            Some(sent) => Step::Since(head.difference(sent)),
            None => Step::Everything,
        }
    }

    /// Moves to `to` without a response: nothing between is news to the client.
    pub(crate) fn advance(&mut self, to: &Arc<ResourceSet>) {
        let at = |place: &Option<Arc<ResourceSet>>| place.as_ref().map(|c| c.revision());
        // The client accepted the state before, and this one differs in nothing that it is sent.
        if at(&self.acked) == at(&self.sent) {
            self.acked = Some(Arc::clone(to));
        }
        self.sent = Some(Arc::clone(to));
    }
}
