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

#[cfg(test)]
mod tests {
    use oxds_core::snapshot::{ChangeSet, Resource};
    use oxds_types::{ApiVersion, ResourceType};

    use super::*;
    use crate::discovery::clients::PollKind;

    fn serving(resources: &[(ResourceType, &str, &[u8])]) -> Arc<Snapshot> {
        let resources = resources.iter().map(|(resource_type, name, content)| {
            Resource::new(resource_type.clone(), *name, content)
        });
        let changes = resources.fold(ChangeSet::default(), ChangeSet::put);
        Snapshot::unloaded().apply(changes).0
    }

    fn poll(resource_type: &ResourceType, names: &[&str], snapshot: &Snapshot) -> Answer {
        let (config, now) = (
            Arc::default(),
            Instant::from_epoch(std::time::Duration::ZERO),
        );
        let message = DiscoveryRequest {
            resource_names: names.iter().map(ToString::to_string).collect(),
            ..DiscoveryRequest::default()
        };
        let served = (resource_type, ApiVersion::V3);
        let request = FetchRequest::new(PollKind::Rest, served, message, &config, now).unwrap();
        Answer::new(&request, &config, now, snapshot).unwrap()
    }

    /// Given polls by name: the version of the answer depends on the resources with these names only.
    #[test]
    fn s56_version_depends_on_the_requested_names_only() {
        let endpoint = ResourceType::ENDPOINT;
        let one = serving(&[(endpoint.clone(), "a", b"1"), (endpoint.clone(), "b", b"1")]);
        let two = serving(&[(endpoint.clone(), "a", b"1"), (endpoint.clone(), "b", b"2")]);
        let version = |names: &[&str], snapshot| poll(&endpoint, names, snapshot).version;
        assert_eq!(version(&["a"], &one), version(&["a"], &two));
        assert_ne!(version(&["b"], &one), version(&["b"], &two));
        assert_eq!(version(&["a", "a"], &one), version(&["a"], &one));
    }

    /// Given a poll for names that do not exist: the answer has no resources. A stream would get no response (S-8), but a
    /// poll that got none would be repeated.
    #[test]
    fn s56_unknown_names_get_an_empty_answer() {
        let snapshot = serving(&[(ResourceType::ENDPOINT, "a", b"1")]);
        let answer = poll(&ResourceType::ENDPOINT, &["z"], &snapshot);
        assert!(answer.resources.is_empty());
        assert_eq!(answer.version, Fingerprint::default().version());
    }

    /// Given more resources than fit one response of a stream: the answer has all of them (S-50).
    #[test]
    fn s50_s56_answer_is_not_split() {
        let content = vec![0; 2 << 20];
        let names = ["a", "b", "c"];
        let resources = names.map(|name| (ResourceType::ENDPOINT, name, &content[..]));
        let snapshot = serving(&resources);
        for asked in [&names[..], &["*"]] {
            let answer = poll(&ResourceType::ENDPOINT, asked, &snapshot);
            assert_eq!(answer.resources.len(), 3, "{asked:?}");
        }
    }
}
