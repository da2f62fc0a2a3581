//! The complete answer to a poll at one snapshot.

use std::sync::Arc;

use oxds_core::session::{Config, Session};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::discovery::{Any, ControlPlane, DiscoveryRequest, DiscoveryResponse};
use oxds_types::{Fingerprint, Version};
use prost::Message as _;

use super::request::FetchRequest;
use crate::discovery::error::CallError;

/// The complete answer to a poll at one snapshot.
#[derive(Debug)]
pub(super) struct Answer {
    /// Content hash of the resources: equal on every replica and after every restart (S-29).
    pub(super) version: Version,
    resources: Vec<Any>,
}

impl Answer {
    /// Asks a new session once. The snapshot must be loaded.
    ///
    /// # Errors
    /// None for a [`FetchRequest`], which is checked.
    pub(super) fn new(
        request: &FetchRequest,
        config: &Arc<Config>,
        now: Instant,
        snapshot: &Snapshot,
    ) -> Result<Self, CallError> {
        let subscription = &request.subscription;
        let (mut session, _) = subscription.open(config, now)?;
        let mut resources = Vec::new();
        let mut of_all = None;
        // A stream gets a long response in parts, each after the ACK of the one before (S-50). A poll gets one response.
        while let Some(sent) = session.poll_transmit(now, snapshot) {
            let part = DiscoveryResponse::decode(sent.frame.message())?;
            resources.extend(part.resources);
            of_all = Some(sent.version);
            let ack = DiscoveryRequest {
                response_nonce: sent.nonce.to_string(),
                ..subscription.request()
            };
            session.handle_request(now, ack.into())?;
        }
        let is_wildcard = session.status().iter().any(|status| status.wildcard);
        let version = match of_all.filter(|_| is_wildcard) {
            Some(version) => version,
            None => version_of_names(&session, request),
        };
        Ok(Self { version, resources })
    }

    pub(super) fn into_response(
        self,
        request: &FetchRequest,
        identifier: Option<&str>,
    ) -> DiscoveryResponse {
        DiscoveryResponse {
            version_info: self.version.to_string(),
            resources: self.resources,
            type_url: request.subscription.type_url.clone(),
            nonce: self.version.to_string(),
            control_plane: identifier.map(|identifier| ControlPlane {
                identifier: identifier.to_owned(),
            }),
            ..DiscoveryResponse::default()
        }
    }
}

/// Returns the version of the resources that the client asked for by name.
///
/// On a stream the version of such a response is that of all resources of the type. A poll compares versions to find out
/// whether something changed for this client, so its version must not depend on resources of others.
fn version_of_names(session: &Session, request: &FetchRequest) -> Version {
    let resource_type = &request.subscription.resource_type;
    let mut fingerprint = Fingerprint::default();
    for name in session.names(resource_type) {
        let status = session.resource_status(resource_type, name);
        if let Some(version) = status.and_then(|status| status.sent) {
            fingerprint.add(name, &version);
        }
    }
    fingerprint.version()
}
