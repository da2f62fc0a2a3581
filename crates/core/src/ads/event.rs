//! Events for watchers, and the queue in which they wait for the driver.

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::WatchError;
use crate::resource::ParsedResource;

/// Event for the watchers of a resource (gRFC A88).
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// The resource changed, or an error replaces it.
    Changed {
        /// Type of the resource.
        resource_type: ResourceType,
        /// Name of the resource.
        name: Arc<str>,
        /// Resource, or the error because of which none can be used.
        resource: Result<ParsedResource, WatchError>,
    },
    /// Ambient error: the cached resource stays in use.
    Ambient {
        /// Type of the resource.
        resource_type: ResourceType,
        /// Name of the resource.
        name: Arc<str>,
        /// The error; `None` when the last one no longer applies and the resource is known to be current.
        error: Option<WatchError>,
    },
    /// A server deleted a resource that stays in use (gRFC A53). This is for the log, not for watchers.
    DeletionIgnored {
        /// Type of the resource.
        resource_type: ResourceType,
        /// Name of the resource.
        name: Arc<str>,
    },
    /// The end of an ignored deletion (gRFC A53). This is for the log, not for watchers.
    DeletionOver {
        /// Type of the resource.
        resource_type: ResourceType,
        /// Name of the resource.
        name: Arc<str>,
        /// Whether the server sends the resource again. If not, the resource is not watched any more.
        is_back: bool,
    },
}

impl ClientEvent {
    pub(super) fn changed(
        resource_type: &ResourceType,
        name: &Arc<str>,
        resource: Result<ParsedResource, WatchError>,
    ) -> Self {
        Self::Changed {
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
            resource,
        }
    }

    pub(super) fn deletion_over(
        resource_type: &ResourceType,
        name: &Arc<str>,
        is_back: bool,
    ) -> Self {
        Self::DeletionOver {
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
            is_back,
        }
    }

    pub(super) fn ambient(
        resource_type: &ResourceType,
        name: &Arc<str>,
        error: Option<WatchError>,
    ) -> Self {
        Self::Ambient {
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
            error,
        }
    }
}

/// Capacity that an empty queue keeps, in events. A response with 100,000 resources must not leave its capacity behind.
const KEPT_CAPACITY: usize = 64;

/// Events that the driver has not polled yet.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<ClientEvent>,
    /// Number of events pushed since the client was made.
    pushed: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, event: ClientEvent) {
        self.pushed += 1;
        self.events.push_back(event);
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = ClientEvent>) {
        events.into_iter().for_each(|event| self.push(event));
    }

    /// Returns the number of events pushed since the client was made.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(super) fn poll(&mut self) -> Option<ClientEvent> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            self.events.shrink_to(KEPT_CAPACITY);
        }
        event
    }
}
