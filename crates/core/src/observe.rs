//! Observer: a client for tools, which follows the resources of one type as bytes.
//!
//! ```text
//!  stream opened ─────▶ ┌──────────┐ ─▶ the first request
//!  response ──────────▶ │ Observer │ ─▶ its ACK or NACK, and the changes
//!  stream ended         └──────────┘    (resources are kept; nothing must be called)
//! ```
//!
//! It validates nothing except what it needs to tell resources apart. A data plane uses [`ads`](crate::ads) instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use oxds_types::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
    Resource as Wrapper, Status,
};
use oxds_types::name::WILDCARD;
use oxds_types::{ApiVersion, ResourceType};
use prost::Message;

use crate::protocol::Protocol;
use crate::resource::{ResourceCheck, own_name};

/// `google.rpc.Code.INVALID_ARGUMENT`: the code of every NACK (gRFC A46).
const INVALID_ARGUMENT: i32 = 3;

/// State machine that follows the resources of one type.
#[derive(Debug, Clone)]
pub struct Observer {
    // Fixed.
    resource_type: ResourceType,
    /// Names to follow; empty for all resources.
    names: BTreeSet<Arc<str>>,
    protocol: Protocol,
    api: ApiVersion,
    node: Node,

    // Survives the stream.
    resources: BTreeMap<Arc<str>, ObservedResource>,
    version: String,
    /// Check of every received resource.
    check: Option<ResourceCheck>,
}

/// A resource, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedResource {
    /// Version of the resource (delta) or of the response that brought it (SotW).
    pub version: String,
    /// API version of the type URL with which it came.
    pub api: ApiVersion,
    /// Encoded message.
    pub value: Bytes,
}

/// A resource that was added, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedChange {
    /// Name of the resource.
    pub name: Arc<str>,
    /// Whether the resource was known before.
    pub was_held: bool,
    /// The new resource; `None` if it was removed.
    pub now: Option<ObservedResource>,
}

/// Request to write to the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ObserverRequest {
    /// Request on a SotW stream.
    Sotw(Box<DiscoveryRequest>),
    /// Request on a delta stream.
    Delta(Box<DeltaDiscoveryRequest>),
}

impl Observer {
    /// Makes an observer of these names; of all resources of the type without names. Its requests are v3.
    #[must_use]
    pub fn new(
        resource_type: ResourceType,
        names: impl IntoIterator<Item = Arc<str>>,
        protocol: Protocol,
        node: Node,
    ) -> Self {
        Self {
            resource_type,
            names: names.into_iter().collect(),
            protocol,
            api: ApiVersion::V3,
            node,
            resources: BTreeMap::new(),
            version: String::new(),
            check: None,
        }
    }

    /// Sets a check of every received resource. One that does not pass rejects the whole response.
    #[must_use]
    pub fn with_check(mut self, check: Option<ResourceCheck>) -> Self {
        self.check = check;
        self
    }

    /// Sets the API version of the requests (gRFC A30). Responses may have either version.
    #[must_use]
    pub fn with_api_version(mut self, api: ApiVersion) -> Self {
        self.api = api;
        self
    }

    /// Returns the known resources, by name.
    pub fn held(&self) -> impl Iterator<Item = (&Arc<str>, &ObservedResource)> {
        self.resources.iter()
    }

    /// Returns the protocol variant of the stream.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the first request on a stream that was opened.
    #[must_use]
    pub fn handle_opened(&self) -> ObserverRequest {
        let (node, type_url) = (Some(self.node.clone()), self.type_url());
        match self.protocol {
            Protocol::Sotw => ObserverRequest::Sotw(Box::new(DiscoveryRequest {
                node,
                type_url,
                resource_names: self.requested_names(),
                // No version: a server need not answer a request that has the current version (S-24), and the observer
                // must not show outdated resources.
                ..DiscoveryRequest::default()
            })),
            Protocol::Delta => ObserverRequest::Delta(Box::new(DeltaDiscoveryRequest {
                node,
                type_url,
                resource_names_subscribe: self.requested_names(),
                initial_resource_versions: self
                    .resources
                    .iter()
                    .map(|(name, resource)| (name.to_string(), resource.version.clone()))
                    .collect(),
                ..DeltaDiscoveryRequest::default()
            })),
        }
    }

    fn type_url(&self) -> String {
        self.resource_type.type_url_on(self.api).to_owned()
    }

    fn requested_names(&self) -> Vec<String> {
        let is_wildcard_type = self.resource_type.all_resources_required_in_sotw();
        match (self.names.is_empty(), is_wildcard_type) {
            // xDS protocol, "How the client specifies what resources to return": for LDS and CDS, servers of any age
            // take an empty list as the wildcard. Other types need `*`.
            (true, true) => Vec::new(),
            (true, false) => vec![WILDCARD.to_owned()],
            (false, _) => self.names.iter().map(ToString::to_string).collect(),
        }
    }

    /// Handles a SotW response: returns its ACK or NACK, and the changes. One unreadable resource rejects the whole
    /// response.
    pub fn handle_response(
        &mut self,
        response: DiscoveryResponse,
    ) -> (ObserverRequest, Vec<ObservedChange>) {
        let version = response.version_info;
        let resources = response
            .resources
            .into_iter()
            .map(|any| self.read(None, &version, any));
        let resources: Result<BTreeMap<_, _>, String> = resources.collect();
        let (changes, error_detail) = match resources {
            Ok(resources) => {
                self.version = version;
                (self.replace(resources), None)
            }
            Err(reason) => (Vec::new(), Some(nack(reason))),
        };
        let request = ObserverRequest::Sotw(Box::new(DiscoveryRequest {
            // xDS protocol, "ACK/NACK and versioning": a NACK repeats the version before it.
            version_info: self.version.clone(),
            type_url: self.type_url(),
            resource_names: self.requested_names(),
            response_nonce: response.nonce,
            error_detail,
            ..DiscoveryRequest::default()
        }));
        (request, changes)
    }

    /// Handles a delta response: returns its ACK or NACK, and the changes. One unreadable resource rejects the whole
    /// response.
    pub fn handle_delta_response(
        &mut self,
        response: DeltaDiscoveryResponse,
    ) -> (ObserverRequest, Vec<ObservedChange>) {
        // A resource without a body is a heartbeat, which changes nothing here.
        let bodies = response
            .resources
            .into_iter()
            .filter_map(|wrapper| Some((wrapper.name, wrapper.version, wrapper.resource?)));
        let resources = bodies.map(|(name, version, any)| self.read(Some(name), &version, any));
        let resources: Result<Vec<_>, String> = resources.collect();
        let (changes, error_detail) = match resources {
            Ok(resources) => {
                let removed = response.removed_resources.into_iter();
                let updates = resources
                    .into_iter()
                    .map(|(name, resource)| (name, Some(resource)))
                    .chain(removed.map(|name| (name.into(), None)));
                (self.update(updates), None)
            }
            Err(reason) => (Vec::new(), Some(nack(reason))),
        };
        let request = ObserverRequest::Delta(Box::new(DeltaDiscoveryRequest {
            type_url: self.type_url(),
            response_nonce: response.nonce,
            error_detail,
            ..DeltaDiscoveryRequest::default()
        }));
        (request, changes)
    }

    /// Applies the resources of a SotW response.
    fn replace(&mut self, resources: BTreeMap<Arc<str>, ObservedResource>) -> Vec<ObservedChange> {
        // xDS protocol, "Deleting resources": only for LDS and CDS does absence mean removal.
        let removed: Vec<_> = if self.resource_type.all_resources_required_in_sotw() {
            self.resources
                .keys()
                .filter(|name| !resources.contains_key(*name))
                .map(|name| (Arc::clone(name), None))
                .collect()
        } else {
            Vec::new()
        };
        let changed: Vec<_> = resources
            .into_iter()
            .filter_map(|(name, new)| match self.resources.get_mut(&name) {
                // The version of a SotW response changes with any of its resources, so the bytes decide.
                Some(old) if old.value == new.value => {
                    *old = new;
                    None
                }
                _ => Some((name, Some(new))),
            })
            .collect();
        self.update(changed.into_iter().chain(removed))
    }

    fn update(
        &mut self,
        updates: impl Iterator<Item = (Arc<str>, Option<ObservedResource>)>,
    ) -> Vec<ObservedChange> {
        let changes = updates.map(|(name, now)| {
            let before = match &now {
                Some(now) => self.resources.insert(Arc::clone(&name), now.clone()),
                None => self.resources.remove(&name),
            };
            ObservedChange {
                name,
                was_held: before.is_some(),
                now,
            }
        });
        changes.collect()
    }

    /// Reads name and bytes of an element, with or without a wrapper.
    fn read(
        &self,
        name: Option<String>,
        version: &str,
        any: Any,
    ) -> Result<(Arc<str>, ObservedResource), String> {
        let message = self.resource_type.message();
        if let Some(wrapper) = unwrap(&any) {
            let wrapper = wrapper.map_err(|error| error.to_string())?;
            let no_body = "a Resource wrapper has no resource: expected one";
            let inner = wrapper.resource.ok_or(no_body)?;
            return self.read(Some(wrapper.name), version, inner);
        }
        let api = match ResourceType::from_type_url(&any.type_url) {
            Some((resource_type, api)) if resource_type == self.resource_type => api,
            _ => {
                let url = any.type_url;
                return Err(format!("wrong type_url {url:?}: expected a {message}"));
            }
        };
        let name: Arc<str> = match name.filter(|name| !name.is_empty()) {
            Some(name) => name.into(),
            None => Arc::from(&*own_name(&any.value).map_err(|invalid| invalid.to_string())?),
        };
        if name.is_empty() {
            return Err(format!("a {message} has no name: expected one"));
        }
        if let Some(check) = &self.check {
            let checked = check.check(&self.resource_type, &any.value);
            checked.map_err(|invalid| invalid.of(&name).to_string())?;
        }
        let resource = ObservedResource {
            version: version.to_owned(),
            api,
            value: any.value,
        };
        Ok((name, resource))
    }
}

/// Decodes the `Resource` wrapper in which a SotW response may have its resources; `None` for any other message.
fn unwrap(any: &Any) -> Option<Result<Wrapper, prost::DecodeError>> {
    let message = any.type_url.rsplit('/').next().unwrap_or_default();
    let is_wrapper = matches!(
        message,
        "envoy.service.discovery.v3.Resource" | "envoy.api.v2.Resource"
    );
    is_wrapper.then(|| Wrapper::decode(any.value.clone()))
}

fn nack(message: String) -> Status {
    Status {
        code: INVALID_ARGUMENT,
        message,
        ..Status::default()
    }
}
