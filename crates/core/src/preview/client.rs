//! A model of a client over delta ADS: it accepts everything, and asks for what that refers to, as Envoy does.
//!
//! ```text
//!   start ──▶ subscribes to all clusters, listeners and other types without references to them
//!   response ──▶ accepts it ──▶ ACK ──▶ subscribes to the assignments, routes and secrets that it now needs,
//!                                        and unsubscribes from those that it needs no more
//! ```
//! It asks for the secrets of a cluster when it has its assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use oxds_types::name::WILDCARD;

use crate::snapshot::{Resource, Snapshot};

/// Types that a client asks for by name, in the order in which it asks.
const BY_NAME: [ResourceType; 4] = [
    ResourceType::ENDPOINT,
    ResourceType::SECRET,
    ResourceType::ROUTE,
    ResourceType::EXTENSION_CONFIG,
];

/// The model.
#[derive(Debug, Default)]
pub(super) struct Client {
    accepted: BTreeMap<ResourceType, BTreeMap<Arc<str>, Arc<Resource>>>,
    subscribed: BTreeMap<ResourceType, BTreeSet<Arc<str>>>,
}

impl Client {
    /// Returns the first requests: wildcards for these types, as far as clients ask for them so.
    pub(super) fn start(types: &BTreeSet<ResourceType>) -> Vec<DeltaDiscoveryRequest> {
        let types = types.iter().filter(|of| !BY_NAME.contains(of));
        let request = |resource_type: &ResourceType| DeltaDiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names_subscribe: vec![WILDCARD.to_owned()],
            ..DeltaDiscoveryRequest::default()
        };
        types.map(request).collect()
    }

    /// Accepts a response. Returns its ACK, then the changes of subscriptions.
    pub(super) fn accept(
        &mut self,
        response: DeltaDiscoveryResponse,
        served: &Snapshot,
    ) -> Vec<DeltaDiscoveryRequest> {
        let mut requests = vec![DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        }];
        if let Some((resource_type, _)) = ResourceType::from_type_url(&response.type_url) {
            let accepted = self.accepted.entry(resource_type.clone()).or_default();
            for name in response.removed_resources {
                accepted.remove(&*name);
            }
            for resource in response.resources {
                if let Some(resource) = served.get(&resource_type, &resource.name) {
                    accepted.insert(Arc::clone(resource.name()), Arc::clone(resource));
                }
            }
            requests.extend(BY_NAME.iter().filter_map(|of| self.subscribe(of, served)));
        }
        requests
    }

    /// Returns whether the client asked for this name of a type that it does not subscribe to as a whole, or for the
    /// whole type.
    pub(super) fn asks_for(&self, resource_type: &ResourceType, name: &str) -> bool {
        let is_named = || {
            let names = self.subscribed.get(resource_type);
            names.is_some_and(|names| names.contains(name))
        };
        !BY_NAME.contains(resource_type) || is_named()
    }

    /// Returns the change of a subscription, if there is one.
    fn subscribe(
        &mut self,
        resource_type: &ResourceType,
        served: &Snapshot,
    ) -> Option<DeltaDiscoveryRequest> {
        let wanted = self.wanted(resource_type, served);
        let known = self.subscribed.entry(resource_type.clone()).or_default();
        let names = |names: Vec<&Arc<str>>| -> Vec<String> {
            names.into_iter().map(ToString::to_string).collect()
        };
        let request = DeltaDiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names_subscribe: names(wanted.difference(known).collect()),
            resource_names_unsubscribe: names(known.difference(&wanted).collect()),
            ..DeltaDiscoveryRequest::default()
        };
        let is_change = *known != wanted;
        *known = wanted;
        is_change.then_some(request)
    }

    /// Returns the names that the accepted resources refer to.
    fn wanted(&self, resource_type: &ResourceType, served: &Snapshot) -> BTreeSet<Arc<str>> {
        let holders = self.accepted.values().flat_map(BTreeMap::values);
        let is_ready = |holder: &&Arc<Resource>| {
            *resource_type != ResourceType::SECRET || self.is_warm(holder, served)
        };
        let references = holders.filter(is_ready).flat_map(|one| one.references());
        let of_type = references.filter(|needed| needed.resource_type == *resource_type);
        of_type.map(|needed| Arc::clone(&needed.name)).collect()
    }

    /// Returns whether the client has the assignments that a cluster refers to, as far as they exist.
    fn is_warm(&self, holder: &Resource, served: &Snapshot) -> bool {
        let assignments = self.accepted.get(&ResourceType::ENDPOINT);
        let has = |name: &str| assignments.is_some_and(|held| held.contains_key(name));
        let mut needed = holder.references().iter();
        needed.all(|needed| {
            let of = &needed.resource_type;
            *of != ResourceType::ENDPOINT
                || has(&needed.name)
                || served.get(of, &needed.name).is_none()
        })
    }
}
