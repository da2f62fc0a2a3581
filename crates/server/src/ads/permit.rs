//! What a client may ask for (S-78).

use oxds_core::session::Request;
use oxds_types::discovery::{DiscoveryRequest, Node, ResourceLocator};
use oxds_types::{ApiVersion, ResourceName, ResourceType};
use tonic::Status;
use tracing::warn;

use super::context::Context;
use super::refusal::Refusal;
use super::service::Peer;
use crate::clients::Via;
use crate::fetch::Question;
use crate::security::{Denied, Grant};

impl Context {
    /// What a client may be told that says it is this node; an empty node if it does not say.
    pub(crate) fn admit(&self, peer: &Peer, node: Option<&Node>) -> Result<Grant, Denied> {
        if !self.security.is_authorizing() {
            return Ok(Grant::Everything);
        }
        let groups = self.cache.groups_of(node.unwrap_or(&Node::default()));
        self.security.admit(peer.identity.as_deref(), node, &groups)
    }

    /// Whether a client may know what others have.
    pub(crate) fn may_inspect(&self, peer: &Peer) -> Result<(), Denied> {
        let may = self.security.may_inspect(peer.identity.as_deref());
        may.inspect_err(|_| self.metrics.refused("authorization"))
    }

    /// What a client without a stream asks for, as far as it may have it, and what it was granted then.
    pub(crate) fn question(
        &self,
        peer: &Peer,
        via: Via,
        (resource_type, api): (&ResourceType, ApiVersion),
        mut request: DiscoveryRequest,
    ) -> Result<(Question, Grant), Refusal> {
        let grant = self.admit(peer, request.node.as_ref())?;
        let withheld = withhold(&grant, resource_type, Asked::by_sotw(&mut request));
        report(self, peer, &withheld);
        let question = Question::new(via, resource_type, api, request, &self.config)?;
        Ok((question, grant))
    }

    /// Whether it would be granted the same now that there is an answer: rules may have changed while it waited.
    pub(crate) fn confirm(
        &self,
        peer: &Peer,
        question: &Question,
        granted: &Grant,
    ) -> Result<(), Denied> {
        match self.admit(peer, question.node.as_ref()) {
            Ok(grant) if grant == *granted => Ok(()),
            _ => Err(Denied::Changed),
        }
    }

    /// What a client is told that may not have what it asked for, counted.
    pub(crate) fn denied(&self, denied: Denied) -> Status {
        Refusal::Denied(denied).status(self)
    }
}

/// Takes the secrets that a client may not have out of its request, and returns their names: to the client they do not
/// exist. Ending the stream instead would take from it all that it may have.
pub(super) fn withhold(
    grant: &Grant,
    resource_type: &ResourceType,
    asked: Asked<'_>,
) -> Vec<String> {
    let mut withheld = Vec::new();
    if *resource_type != ResourceType::SECRET {
        return withheld;
    }
    let Asked { names, locators } = asked;
    let mut may_have = |name: &str| {
        let may = may_have_secret(grant, name);
        if !may {
            withheld.push(name.to_owned());
        }
        may
    };
    names.retain(|name| may_have(name));
    locators.retain(|locator| may_have(&locator.name));
    withheld
}

/// Counts what was withheld from a client, and says so, however much it was, in one line.
pub(super) fn report(context: &Context, peer: &Peer, withheld: &[String]) {
    let Some(first) = withheld.first() else {
        return;
    };
    withheld
        .iter()
        .for_each(|_| context.metrics.refused("secret"));
    let (name, names) = (first.chars().take(128).collect::<String>(), withheld.len());
    warn!(%peer, name, names, "may not have this secret");
}

/// What a request asks for besides what its stream has asked for already.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    names: &'a mut Vec<String>,
    locators: &'a mut Vec<ResourceLocator>,
}

impl<'a> Asked<'a> {
    pub(super) fn by_sotw(request: &'a mut DiscoveryRequest) -> Self {
        Self {
            names: &mut request.resource_names,
            locators: &mut request.resource_locators,
        }
    }

    pub(super) fn by(request: &'a mut Request) -> Self {
        match request {
            Request::Sotw(request) => Self::by_sotw(request),
            Request::Delta(request) => Self {
                names: &mut request.resource_names_subscribe,
                locators: &mut request.resource_locators_subscribe,
            },
        }
    }
}

/// Names are compared as they are served: in canonical form.
fn may_have_secret(grant: &Grant, name: &str) -> bool {
    match ResourceName::parse(name) {
        Ok(parsed) => grant.allows_secret(&parsed.canonical()),
        Err(_) => grant.allows_secret(name),
    }
}
