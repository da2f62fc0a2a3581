//! The subscription of a poll, and the session that represents it.

use std::sync::Arc;

use oxds_core::session::{Config, Event, Interest, Scope, Session, StreamError};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, ResourceLocator};
use oxds_types::name::canonical;
use oxds_types::{ApiVersion, ResourceType};

/// Resources that a poll asks for, all of one type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PollSubscription {
    pub(crate) resource_type: ResourceType,
    /// API version of the type URL, in which the resources are sent.
    pub(crate) api: ApiVersion,
    pub(crate) type_url: String,
    /// Canonical names, sorted and without duplicates.
    names: Vec<String>,
    /// Locators with dynamic parameters; those without are other forms of a name.
    locators: Vec<ResourceLocator>,
}

impl PollSubscription {
    /// Makes the subscription to these names and locators, in any spelling.
    pub(crate) fn new(
        (resource_type, api): (&ResourceType, ApiVersion),
        type_url: String,
        names: Vec<String>,
        locators: Vec<ResourceLocator>,
    ) -> Self {
        let (locators, plain): (Vec<_>, Vec<_>) = locators
            .into_iter()
            .partition(|locator| !locator.dynamic_parameters.is_empty());
        let names = names
            .into_iter()
            .chain(plain.into_iter().map(|locator| locator.name));
        // xRFC TP1, "Normalization": two spellings of a name are one subscription.
        let mut names: Vec<_> = names.map(|name| canonical(&name).into_owned()).collect();
        names.sort_unstable();
        names.dedup();
        Self {
            resource_type: resource_type.clone(),
            api,
            type_url,
            names,
            locators,
        }
    }

    /// Returns the resource type and the names.
    pub(super) fn key(&self) -> (ResourceType, Vec<String>) {
        let locators = self.locators.iter().map(|locator| locator.name.clone());
        let names = self.names.iter().cloned().chain(locators);
        (self.resource_type.clone(), names.collect())
    }

    /// Whether both ask for the same resource, or one of them for all of the type.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let selects_all =
            |of: &Self| of.names.is_empty() || of.names.iter().any(|name| name == "*");
        let shares = || {
            let mut names = self.names.iter();
            names.any(|name| other.names.binary_search(name).is_ok())
        };
        self.resource_type == other.resource_type
            && (selects_all(self) || selects_all(other) || shares())
    }

    /// Opens a session with this subscription for a client that reports a version. Returns it with the resources whose
    /// changes concern it.
    ///
    /// The session gets no node, hence no client features: a poll has no heartbeats (S-49) and no `resource_errors`.
    pub(crate) fn open(
        &self,
        version: &str,
        config: &Arc<Config>,
        now: Instant,
    ) -> Result<(Session, Vec<Interest>), StreamError> {
        let scope = Scope::Polled(self.resource_type.clone());
        let mut session = Session::new(Protocol::Sotw, scope, Arc::clone(config));
        let request = DiscoveryRequest {
            version_info: version.to_owned(),
            ..self.request()
        };
        session.handle_request(now, request.into())?;
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
