//! One URL that is polled.

use std::sync::Arc;

use oxds_core::poll::PollTiming;
use oxds_types::ResourceType;

use super::Rest;
use crate::bootstrap::Server;
use crate::source::error::SourceError;
use crate::source::optional::OptionalPeer;

/// A URL that polls are posted to, and how often.
#[derive(Debug, Clone)]
pub(super) struct RestPeer {
    pub(super) server: Server,
    pub(super) path: String,
    pub(super) pace: PollTiming,
}

impl Rest {
    /// Returns the peers for a resource type, in order of preference.
    pub(crate) fn peers(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = Result<Arc<dyn OptionalPeer>, SourceError>> {
        self.servers.iter().cloned().map(move |server| {
            let service = resource_type.service(server.version());
            let path = service.and_then(|service| service.rest);
            let path = path.ok_or_else(|| SourceError::NoService {
                resource_type: resource_type.clone(),
                transport: "REST",
            })?;
            let peer: Arc<dyn OptionalPeer> = Arc::new(RestPeer {
                server,
                path: format!("{}{path}", self.prefix),
                pace: self.pace,
            });
            Ok(peer)
        })
    }
}
