//! The subscription of a poll, and the session that represents it.

use std::sync::Arc;

use oxds_core::session::{Config, Event, Interest, Scope, Session, StreamError};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, ResourceLocator};
use oxds_types::{ApiVersion, ResourceType};

/// Resources that a poll asks for, all of one type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PollSubscription {
    pub(crate) resource_type: ResourceType,
    /// API version of the type URL, in which the resources are sent.
    pub(crate) api: ApiVersion,
    pub(crate) type_url: String,
    /// Names, sorted and without duplicates.
    pub(crate) names: Vec<String>,
    pub(crate) locators: Vec<ResourceLocator>,
}

impl PollSubscription {
    /// Opens a session with this subscription, and returns the resources whose changes concern it.
    ///
    /// The session gets no node, hence no client features: a poll has no heartbeats (S-49) and no `resource_errors`.
    pub(crate) fn open(
        &self,
        config: &Arc<Config>,
        now: Instant,
    ) -> Result<(Session, Vec<Interest>), StreamError> {
        let scope = Scope::Single(self.resource_type.clone());
        let mut session = Session::new(Protocol::Sotw, scope, Arc::clone(config));
        session.handle_request(now, self.request().into())?;
        let mut interests = Vec::new();
        while let Some(event) = session.poll_event() {
            if let Event::Watched(_, watched) = event {
                interests.extend(watched);
            }
        }
        Ok((session, interests))
    }

    /// Returns the request of a SotW stream with this subscription.
    pub(crate) fn request(&self) -> DiscoveryRequest {
        DiscoveryRequest {
            resource_names: self.names.clone(),
            resource_locators: self.locators.clone(),
            type_url: self.type_url.clone(),
            ..DiscoveryRequest::default()
        }
    }
}
