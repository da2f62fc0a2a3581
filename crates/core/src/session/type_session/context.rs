//! Facts about one resource type on one stream that never change.

use std::sync::Arc;

use oxds_types::ResourceType;

use crate::snapshot::{Form, Protocol, Resource, has_aliases};

/// Resource type, encoding, and the client features that decide how responses are written.
#[derive(Debug)]
pub(crate) struct TypeContext {
    pub(crate) resource_type: ResourceType,
    pub(crate) form: Form,
    /// Whether the client reads `resource_errors` (xRFC TP3).
    pub(crate) reads_errors: bool,
    /// Whether the client polls, so that each response must be complete.
    pub(crate) is_polled: bool,
}

impl TypeContext {
    pub(crate) fn is_delta(&self) -> bool {
        self.form.protocol == Protocol::Delta
    }

    /// Whether each response must list all resources, as absence means removal: SotW listeners and clusters, and polls.
    pub(crate) fn is_full_state(&self) -> bool {
        let is_required = self.resource_type.all_resources_required_in_sotw();
        !self.is_delta() && (self.is_polled || is_required)
    }

    /// Whether a response cannot express that a resource does not exist. The client then keeps its copy.
    pub(crate) fn hides_absence(&self) -> bool {
        !self.is_delta() && !self.is_full_state() && !self.reads_errors
    }

    /// Delta: whether the client finds resources by their aliases.
    pub(crate) fn has_aliases(&self) -> bool {
        self.is_delta() && has_aliases(&self.resource_type)
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.resource_type == ResourceType::CLUSTER
    }

    /// Endpoint assignments of these resources, if they are clusters.
    pub(crate) fn assignments<'a>(
        &self,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
    ) -> Vec<Arc<str>> {
        if !self.is_cluster() {
            return Vec::new();
        }
        resources
            .flat_map(|cluster| cluster.references())
            .filter(|reference| reference.resource_type == ResourceType::ENDPOINT)
            .map(|reference| Arc::clone(&reference.name))
            .collect()
    }
}
