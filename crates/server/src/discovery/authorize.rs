//! Authorization of clients and of their requests (S-78).

use std::sync::atomic::Ordering;

use oxds_core::session::{Request, ResourceErrorCode, ResourceErrorDetail};
use oxds_types::discovery::{DiscoveryRequest, Node, ResourceLocator};
use oxds_types::name::{WILDCARD, canonical};
use oxds_types::{ApiVersion, ResourceType};
use tonic::Status;
use tracing::warn;

use super::poll::FetchRequest;
use crate::calls::{Admitted, CallError, ClientLine, Peer};
use crate::clients::{OpenStream, PollKind, lock};
use crate::context::Context;
use crate::metrics::DeniedBy;
use crate::security::{Denied, Grant};

impl Context {
    /// Returns the grant of a client that identifies itself as `node`; `None` is a node with an empty id.
    pub(crate) fn admit(&self, peer: &Peer, node: Option<&Node>) -> Result<Grant, Denied> {
        let security = &self.server.security;
        if !security.is_authorizing() {
            return Ok(Grant::Everything);
        }
        let groups = self.cache.groups_of(node.unwrap_or(&Node::default()));
        security.admit(peer.identity.as_deref(), node, &groups)
    }

    /// Checks whether a client may read the state of other clients.
    pub(crate) fn may_inspect(&self, peer: &Peer) -> Result<(), Denied> {
        let may = self.server.security.may_inspect(peer.identity.as_deref());
        may.inspect_err(|_| self.server.metrics.denied(DeniedBy::Authorization))
    }

    /// Authorizes a request of a stream, and removes the secrets from it that the client may not have.
    pub(super) fn permit(&self, stream: &OpenStream, request: &mut Request) -> Result<(), Denied> {
        let mut grant = lock(&stream.grant);
        // xDS protocol, `DiscoveryRequest.node`: only the first request of a stream needs the node. The session takes
        // the first node that it gets (S-22), so the grant is renewed until then.
        if grant.is_none() || stream.session().node().is_none() {
            *grant = Some(self.admit(&stream.peer, request.node())?);
        }
        if let (Some(grant), Some((resource_type, _))) =
            (&*grant, ResourceType::from_type_url(request.type_url()))
        {
            let denied = remove_denied(grant, &resource_type, NewNames::of(request));
            // A SotW request repeats all names, so one log line per stream is enough.
            if !denied.is_empty() && !stream.denial_logged.swap(true, Ordering::Relaxed) {
                self.report_denied(&stream.peer, &denied);
            }
            let mut session = stream.session();
            // `*` is not a name: a client that may not have all secrets gets those that it may have.
            for name in denied.iter().filter(|name| *name != WILDCARD) {
                let error = ResourceErrorDetail {
                    code: ResourceErrorCode::PermissionDenied,
                    message: "not for this client".to_owned(),
                };
                session.deny(resource_type.clone(), name, error);
            }
        }
        Ok(())
    }

    /// Ends a stream if its client would get another grant now.
    pub(crate) fn review(&self, stream: &OpenStream) {
        let grant = lock(&stream.grant);
        let Some(grant) = &*grant else {
            return;
        };
        let now = self.admit(&stream.peer, stream.session().node());
        if now.as_ref() != Ok(grant) {
            stream.end.cancel();
        }
    }

    /// Authorizes the request of a client without a stream, removes the secrets from it that the client may not have,
    /// and checks the rest. Returns it with the grant.
    pub(super) fn fetch_request(
        &self,
        peer: &Peer,
        kind: PollKind,
        served: (&ResourceType, ApiVersion),
        mut request: DiscoveryRequest,
    ) -> Result<(FetchRequest, Grant), CallError> {
        let (resource_type, api) = served;
        self.check_api(api, peer)?;
        self.check_api_of(&request.type_url, peer)?;
        let grant = self.admit(peer, request.node.as_ref())?;
        let denied = remove_denied(&grant, resource_type, NewNames::of_sotw(&mut request));
        self.report_denied(peer, &denied);
        let now = self.server.clock.now();
        let request = FetchRequest::new(kind, served, request, &self.config, now)?;
        Ok((request, grant))
    }

    /// Checks that the client would get the same grant now: the rules may have changed while the poll was held.
    pub(super) fn confirm(
        &self,
        peer: &Peer,
        request: &FetchRequest,
        granted: &Grant,
    ) -> Result<(), Denied> {
        match self.admit(peer, request.node.as_ref()) {
            Ok(grant) if grant == *granted => Ok(()),
            _ => Err(Denied::Changed),
        }
    }

    /// Counts a denial, and returns the status for the client.
    pub(crate) fn denied(&self, denied: Denied) -> Status {
        CallError::Denied(denied).status(&self.server.metrics)
    }

    /// Counts denied secrets, and logs them in one line.
    fn report_denied(&self, peer: &Peer, denied: &[String]) {
        let Some(first) = denied.first() else {
            return;
        };
        for _ in denied {
            self.server.metrics.denied(DeniedBy::Secret);
        }
        let (name, names) = (first.chars().take(128).collect::<String>(), denied.len());
        let now = self.server.clock.now();
        if let Some(Admitted { suppressed }) = self.server.log.admit(ClientLine::SecretsDenied, now)
        {
            warn!(%peer, name, names, suppressed, "secrets denied");
        }
    }
}

/// Removes the secrets from a request that the client may not have, and returns their names.
///
/// To the client these secrets do not exist. An error instead would end the stream, and the client would lose the
/// resources that it may have.
fn remove_denied(grant: &Grant, resource_type: &ResourceType, asked: NewNames<'_>) -> Vec<String> {
    let mut denied = Vec::new();
    if *resource_type != ResourceType::SECRET {
        return denied;
    }
    let NewNames { names, locators } = asked;
    let mut is_allowed = |name: &str| {
        // xRFC TP1, "Normalization": the rules see the same name as the lookup (S-78).
        let allowed = grant.allows_secret(&canonical(name));
        if !allowed {
            denied.push(name.to_owned());
        }
        allowed
    };
    names.retain(|name| is_allowed(name));
    locators.retain(|locator| is_allowed(&locator.name));
    denied
}

/// Names and locators that a request subscribes to.
#[derive(Debug)]
struct NewNames<'a> {
    names: &'a mut Vec<String>,
    locators: &'a mut Vec<ResourceLocator>,
}

impl<'a> NewNames<'a> {
    fn of_sotw(request: &'a mut DiscoveryRequest) -> Self {
        Self {
            names: &mut request.resource_names,
            locators: &mut request.resource_locators,
        }
    }

    fn of(request: &'a mut Request) -> Self {
        match request {
            Request::Sotw(request) => Self::of_sotw(request),
            Request::Delta(request) => Self {
                names: &mut request.resource_names_subscribe,
                locators: &mut request.resource_locators_subscribe,
            },
        }
    }
}
