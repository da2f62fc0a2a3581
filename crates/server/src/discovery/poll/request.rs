//! Fetch requests: the requests of clients without a stream.

use std::sync::Arc;

use oxds_core::session::{Config, Interest, StreamError};
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, Node, Status};
use oxds_types::{ApiVersion, ResourceType};

use crate::cache::View;
use crate::clients::{ClientPoll, PollKind, PollReport, PollSubscription};

/// A checked request of a client without a stream.
#[derive(Debug, Clone)]
pub(crate) struct FetchRequest {
    pub(crate) kind: PollKind,
    /// Node as the client identifies itself.
    pub(crate) node: Option<Node>,
    pub(crate) subscription: PollSubscription,
    /// Resources whose changes concern the client.
    pub(crate) interests: Vec<Interest>,
    /// Version that the client has (`version_info`); empty if none.
    pub(crate) version: String,
    /// Nonce of the last response that the client got (`response_nonce`); may be empty.
    pub(crate) nonce: String,
    /// Present if the client rejects the last response.
    pub(crate) error: Option<Status>,
}

impl FetchRequest {
    /// Checks a request to the service of `resource_type`. The limits are those of streams (S-60).
    pub(crate) fn new(
        kind: PollKind,
        (resource_type, api): (&ResourceType, ApiVersion),
        request: DiscoveryRequest,
        config: &Arc<Config>,
        now: Instant,
    ) -> Result<Self, StreamError> {
        let DiscoveryRequest {
            version_info,
            node,
            resource_names,
            resource_locators,
            mut type_url,
            response_nonce,
            error_detail,
            ..
        } = request;
        if type_url.is_empty() {
            resource_type.type_url_on(api).clone_into(&mut type_url);
        }
        let api = ResourceType::from_type_url(&type_url).map_or(api, |(_, api)| api);
        let served = (resource_type, api);
        let subscription =
            PollSubscription::new(served, type_url, resource_names, resource_locators);
        let (_, interests) = subscription.open(&version_info, config, now)?;
        Ok(Self {
            kind,
            node,
            subscription,
            interests,
            version: version_info,
            nonce: response_nonce,
            error: error_detail,
        })
    }

    /// Returns the poll as the registry of poll clients sees it.
    pub(super) fn of_client<'a>(&'a self, view: &'a Arc<View>) -> ClientPoll<'a> {
        ClientPoll {
            kind: self.kind,
            node: self.node.as_ref(),
            subscription: &self.subscription,
            view,
        }
    }

    /// Returns the part that answers the last response.
    pub(super) fn report(&self) -> PollReport<'_> {
        PollReport {
            version: &self.version,
            nonce: &self.nonce,
            error: self.error.as_ref(),
        }
    }
}
