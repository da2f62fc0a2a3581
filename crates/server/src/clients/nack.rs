//! NACKs as the rollback needs them.

use std::sync::Arc;

use oxds_core::session::{Event, NackedResource, Session};
use oxds_types::ResourceType;

/// The NACK of one resource.
#[derive(Debug)]
pub(crate) struct ReportedNack {
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) resource: NackedResource,
}

impl ReportedNack {
    /// Returns the resources that an event shows to be rejected, in the version that was sent last.
    pub(crate) fn of_event(session: &Session, event: &Event) -> Vec<Self> {
        let Event::Nacked {
            resource_type,
            resources: names,
            ..
        } = event
        else {
            return Vec::new();
        };
        let nacks = names.iter().filter_map(|name| {
            let resource = session.resource_status(resource_type, name)?.nacked?;
            Some(Self {
                resource_type: resource_type.clone(),
                name: Arc::clone(name),
                resource,
            })
        });
        nacks.collect()
    }
}
