//! A client that looks on: follows resources of one kind as bytes, and judges nothing beyond what it must to tell them
//! apart.
//!
//! ```text
//!  stream opened ─────▶ ┌──────────┐ ─▶ the first request
//!  response ──────────▶ │ Observer │ ─▶ its answer, and what changed
//!  stream ended         └──────────┘    (what is held survives; nothing is to be called)
//! ```
//!
//! For tools. A data plane takes [`ads`](crate::ads), which knows what it can use.

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

use crate::snapshot::Protocol;

/// `google.rpc.Code.INVALID_ARGUMENT`: the code of every NACK (gRFC A46).
const INVALID_ARGUMENT: i32 = 3;

/// What is followed, and what is held of it.
#[derive(Debug, Clone)]
pub struct Observer {
    // Fixed.
    resource_type: ResourceType,
    /// None: all that there are.
    names: BTreeSet<Arc<str>>,
    protocol: Protocol,
    api: ApiVersion,
    node: Node,

    // Survives the stream.
    held: BTreeMap<Arc<str>, ObservedResource>,
    version: String,
}

/// A resource, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedResource {
    /// Its version; that of the whole response where full states are sent.
    pub version: String,
    /// The version of the API whose type URL it came with.
    pub api: ApiVersion,
    /// The encoded message.
    pub value: Bytes,
}

/// A resource came, changed or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedChange {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it was held before.
    pub was_held: bool,
    /// What it is; `None`: there is none.
    pub now: Option<ObservedResource>,
}

/// What to write to the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ObserverRequest {
    /// To one of full states.
    Sotw(Box<DiscoveryRequest>),
    /// To one of differences.
    Delta(Box<DeltaDiscoveryRequest>),
}

impl Observer {
    /// An observer of these names, or, if there are none, of all resources of the kind.
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
            held: BTreeMap::new(),
            version: String::new(),
        }
    }

    /// The same, asking in this version of the API: v3, unless told (gRFC A30). It may be answered in either.
    #[must_use]
    pub fn with_api_version(mut self, api: ApiVersion) -> Self {
        self.api = api;
        self
    }

    /// What is held, by name.
    pub fn held(&self) -> impl Iterator<Item = (&Arc<str>, &ObservedResource)> {
        self.held.iter()
    }

    /// Full states or differences.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// A stream was opened: its first request.
    #[must_use]
    pub fn handle_opened(&self) -> ObserverRequest {
        let (node, type_url) = (Some(self.node.clone()), self.type_url());
        match self.protocol {
            Protocol::Sotw => ObserverRequest::Sotw(Box::new(DiscoveryRequest {
                node,
                type_url,
                resource_names: self.asked(),
                // No version: a server may keep silent about one that it has (S-24), and what is held must not be old.
                ..DiscoveryRequest::default()
            })),
            Protocol::Delta => ObserverRequest::Delta(Box::new(DeltaDiscoveryRequest {
                node,
                type_url,
                resource_names_subscribe: self.asked(),
                initial_resource_versions: self
                    .held
                    .iter()
                    .map(|(name, held)| (name.to_string(), held.version.clone()))
                    .collect(),
                ..DeltaDiscoveryRequest::default()
            })),
        }
    }

    fn type_url(&self) -> String {
        self.resource_type.type_url_on(self.api).to_owned()
    }

    /// The names to ask for. Where all are wanted, servers of any age take none for that in the full-state kinds, as the
    /// protocol has it; for others there is `*`.
    fn asked(&self) -> Vec<String> {
        match (
            self.names.is_empty(),
            self.resource_type.all_resources_required_in_sotw(),
        ) {
            (true, true) => Vec::new(),
            (true, false) => vec![WILDCARD.to_owned()],
            (false, _) => self.names.iter().map(ToString::to_string).collect(),
        }
    }

    /// A full state came: its answer, and what changed. A resource that cannot be told apart rejects it as a whole.
    pub fn handle_response(
        &mut self,
        response: DiscoveryResponse,
    ) -> (ObserverRequest, Vec<ObservedChange>) {
        let version = response.version_info;
        let resources = response
            .resources
            .into_iter()
            .map(|any| self.named(None, &version, any));
        let resources: Result<BTreeMap<_, _>, String> = resources.collect();
        let (changes, error_detail) = match resources {
            Ok(resources) => {
                self.version = version;
                (self.replace(resources), None)
            }
            Err(fault) => (Vec::new(), Some(rejection(fault))),
        };
        let request = ObserverRequest::Sotw(Box::new(DiscoveryRequest {
            version_info: self.version.clone(),
            type_url: self.type_url(),
            resource_names: self.asked(),
            response_nonce: response.nonce,
            error_detail,
            ..DiscoveryRequest::default()
        }));
        (request, changes)
    }

    /// A difference came: its answer, and what changed. A resource that cannot be told apart rejects it as a whole.
    pub fn handle_delta_response(
        &mut self,
        response: DeltaDiscoveryResponse,
    ) -> (ObserverRequest, Vec<ObservedChange>) {
        // One without a body says that what was sent before is alive.
        let bodies = response
            .resources
            .into_iter()
            .filter_map(|wrapper| Some((wrapper.name, wrapper.version, wrapper.resource?)));
        let resources = bodies.map(|(name, version, any)| self.named(Some(name), &version, any));
        let resources: Result<Vec<_>, String> = resources.collect();
        let (changes, error_detail) = match resources {
            Ok(resources) => {
                let updates = resources
                    .into_iter()
                    .map(|(name, held)| (name, Some(held)))
                    .chain(
                        response
                            .removed_resources
                            .into_iter()
                            .map(|name| (name.into(), None)),
                    );
                (self.update(updates), None)
            }
            Err(fault) => (Vec::new(), Some(rejection(fault))),
        };
        let request = ObserverRequest::Delta(Box::new(DeltaDiscoveryRequest {
            type_url: self.type_url(),
            response_nonce: response.nonce,
            error_detail,
            ..DeltaDiscoveryRequest::default()
        }));
        (request, changes)
    }

    /// A full state. Only in the full-state kinds does absence mean removal (xDS protocol, "Deleting resources").
    fn replace(&mut self, resources: BTreeMap<Arc<str>, ObservedResource>) -> Vec<ObservedChange> {
        let gone: Vec<_> = match self.resource_type.all_resources_required_in_sotw() {
            true => self
                .held
                .keys()
                .filter(|name| !resources.contains_key(*name))
                .map(|name| (Arc::clone(name), None))
                .collect(),
            false => Vec::new(),
        };
        let changed: Vec<_> = resources
            .into_iter()
            .filter_map(|(name, now)| match self.held.get_mut(&name) {
                // The version is that of the whole: it changes for the sake of others.
                Some(held) if held.value == now.value => {
                    *held = now;
                    None
                }
                _ => Some((name, Some(now))),
            })
            .collect();
        self.update(changed.into_iter().chain(gone))
    }

    fn update(
        &mut self,
        updates: impl Iterator<Item = (Arc<str>, Option<ObservedResource>)>,
    ) -> Vec<ObservedChange> {
        let changes = updates.map(|(name, now)| {
            let before = match &now {
                Some(now) => self.held.insert(Arc::clone(&name), now.clone()),
                None => self.held.remove(&name),
            };
            ObservedChange {
                name,
                was_held: before.is_some(),
                now,
            }
        });
        changes.collect()
    }

    /// A resource of this kind and its name, be it wrapped or not.
    fn named(
        &self,
        name: Option<String>,
        version: &str,
        any: Any,
    ) -> Result<(Arc<str>, ObservedResource), String> {
        if let Some(wrapper) = unwrapped(&any) {
            let wrapper = wrapper.map_err(|error| error.to_string())?;
            let inner = wrapper.resource.ok_or("a wrapper without a resource")?;
            return self.named(Some(wrapper.name), version, inner);
        }
        let api = match ResourceType::from_type_url(&any.type_url) {
            Some((resource_type, api)) if resource_type == self.resource_type => api,
            _ => {
                return Err(format!(
                    "not a {}: {}",
                    self.resource_type.message(),
                    any.type_url
                ));
            }
        };
        let name = match name.filter(|name| !name.is_empty()) {
            Some(name) => name,
            None => {
                Named::decode(any.value.clone())
                    .map_err(|error| error.to_string())?
                    .name
            }
        };
        if name.is_empty() {
            return Err(format!("a {} without a name", self.resource_type.message()));
        }
        let (version, value) = (version.to_owned(), any.value);
        let held = ObservedResource {
            version,
            api,
            value,
        };
        Ok((name.into(), held))
    }
}

/// Field 1 of every resource that has a name: the name.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

/// What a SotW response may wrap its resources in; `None` for anything else.
fn unwrapped(any: &Any) -> Option<Result<Wrapper, prost::DecodeError>> {
    let message = any.type_url.rsplit('/').next().unwrap_or_default();
    let wraps = matches!(
        message,
        "envoy.service.discovery.v3.Resource" | "envoy.api.v2.Resource"
    );
    wraps.then(|| Wrapper::decode(any.value.clone()))
}

fn rejection(message: String) -> Status {
    Status {
        code: INVALID_ARGUMENT,
        message,
        ..Status::default()
    }
}
