//! NACKs as the rollback needs them.

use std::sync::Arc;

use oxds_core::session::{NackedResource, Session};
use oxds_types::ResourceType;

/// The NACK of one resource.
#[derive(Debug)]
pub(crate) struct ReportedNack {
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) resource: NackedResource,
}

impl ReportedNack {
    /// Returns the resources among `names` that the client rejects in the version it was sent last.
    pub(crate) fn of_session(
        session: &Session,
        resource_type: &ResourceType,
        names: Vec<Arc<str>>,
    ) -> impl Iterator<Item = Self> {
        names.into_iter().filter_map(move |name| {
            let resource = session.resource_status(resource_type, &name)?.nacked?;
            Some(Self {
                resource_type: resource_type.clone(),
                name,
                resource,
            })
        })
    }
}
