//! Requests of both protocol variants, and their common form.

use std::{borrow::Cow, collections::HashMap, mem::take};

use envoy_types::pb::{envoy::config::core::v3::Node, google::rpc::Status};
use oxds_types::{
    ResourceType,
    discovery::{DeltaDiscoveryRequest, DiscoveryRequest, ResourceLocator, VersionedTypeUrl},
    name::{canonical, is_collection},
};

use super::{Config, StreamError, error::excerpt};
use crate::snapshot::Protocol;

/// Message of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Message of a SotW stream.
    Sotw(DiscoveryRequest),
    /// Message of a delta stream.
    Delta(DeltaDiscoveryRequest),
}

impl From<DiscoveryRequest> for Request {
    fn from(request: DiscoveryRequest) -> Self {
        Self::Sotw(request)
    }
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(request: DeltaDiscoveryRequest) -> Self {
        Self::Delta(request)
    }
}

impl Request {
    /// Returns the node. Clients have to send it in the first request of a stream only.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }

    /// Returns the node for modification, for example by hooks.
    pub fn node_mut(&mut self) -> &mut Option<Node> {
        match self {
            Self::Sotw(request) => &mut request.node,
            Self::Delta(request) => &mut request.node,
        }
    }

    /// Returns the type URL of the requested resources; may be empty on a stream of one type.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match self {
            Self::Sotw(request) => &request.type_url,
            Self::Delta(request) => &request.type_url,
        }
    }

    /// Returns the subscribed names: all of them in SotW, the added ones in delta.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::Sotw(request) => &request.resource_names,
            Self::Delta(request) => &request.resource_names_subscribe,
        }
    }

    /// Returns the majors that the client accepts, with their newest versions: only in the first request of a type, and
    /// only of clients with that feature (V-50).
    #[must_use]
    pub fn versioned_type_urls(&self) -> &[VersionedTypeUrl] {
        match self {
            Self::Sotw(request) => &request.versioned_type_urls,
            Self::Delta(request) => &request.versioned_type_urls,
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Sotw(_) => Protocol::Sotw,
            Self::Delta(_) => Protocol::Delta,
        }
    }

    /// Nonce of the response that this answers; empty if none.
    pub(super) fn nonce(&self) -> &str {
        match self {
            Self::Sotw(request) => &request.response_nonce,
            Self::Delta(request) => &request.response_nonce,
        }
    }

    /// Takes the part that concerns the subscription. Locators are added to the names, which become canonical.
    ///
    /// # Errors
    ///
    /// [`StreamError::DynamicParameters`].
    pub(super) fn take_names(&mut self) -> Result<RequestedNames, StreamError> {
        Ok(match self {
            Self::Sotw(request) => RequestedNames::Sotw {
                names: with_locators(&mut request.resource_names, &mut request.resource_locators)?,
                version: take(&mut request.version_info),
            },
            Self::Delta(request) => RequestedNames::Delta {
                subscribe: with_locators(
                    &mut request.resource_names_subscribe,
                    &mut request.resource_locators_subscribe,
                )?,
                unsubscribe: with_locators(
                    &mut request.resource_names_unsubscribe,
                    &mut request.resource_locators_unsubscribe,
                )?,
                initial_versions: by_canonical_name(take(&mut request.initial_resource_versions)),
            },
        })
    }

    /// Returns the reason of a NACK; `None` if the request is not a NACK.
    #[must_use]
    pub fn error_detail(&self) -> Option<&Status> {
        match self {
            Self::Sotw(request) => request.error_detail.as_ref(),
            Self::Delta(request) => request.error_detail.as_ref(),
        }
    }
}

/// The part of a request that concerns the subscription.
#[derive(Debug)]
pub(super) enum RequestedNames {
    /// The complete subscription.
    Sotw { names: Vec<String>, version: String },
    /// A change of the subscription.
    Delta {
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
        initial_versions: HashMap<String, String>,
    },
}

/// A locator without dynamic parameters is another form of a name.
fn with_locators(
    names: &mut Vec<String>,
    locators: &mut Vec<ResourceLocator>,
) -> Result<Vec<String>, StreamError> {
    // xRFC TP2: parameters select among variants of a resource. Without variants, an answer would look like a match.
    let has_parameters = |one: &&ResourceLocator| !one.dynamic_parameters.is_empty();
    if let Some(refused) = locators.iter().find(has_parameters) {
        return Err(StreamError::DynamicParameters(excerpt(&refused.name)));
    }
    let mut names = take(names);
    names.extend(take(locators).into_iter().map(|locator| locator.name));
    for name in &mut names {
        if let Cow::Owned(canonical) = canonical(name) {
            *name = canonical;
        }
    }
    Ok(names)
}

/// Initial versions by canonical names.
fn by_canonical_name(versions: HashMap<String, String>) -> HashMap<String, String> {
    let is_canonical = |name: &String| matches!(canonical(name), Cow::Borrowed(_));
    if versions.keys().all(is_canonical) {
        return versions;
    }
    let canonical = |(name, version): (String, _)| (canonical(&name).into_owned(), version);
    versions.into_iter().map(canonical).collect()
}

impl RequestedNames {
    /// Checks the limits on names (S-60).
    pub(super) fn check(
        &self,
        resource_type: &ResourceType,
        config: &Config,
    ) -> Result<(), StreamError> {
        let (names, removed): (&[String], &[String]) = match self {
            Self::Sotw { names, .. } => (names, &[]),
            Self::Delta {
                subscribe,
                unsubscribe,
                ..
            } => (subscribe, unsubscribe),
        };
        if names.len().max(removed.len()) > config.max_names {
            return Err(StreamError::TooManyNames {
                resource_type: resource_type.clone(),
                limit: config.max_names,
            });
        }
        // xRFC TP1: a SotW response does not tell which resources belong to a collection.
        if matches!(self, Self::Sotw { .. })
            && let Some(name) = names.iter().find(|name| is_collection(name))
        {
            return Err(StreamError::CollectionInSotw(excerpt(name)));
        }
        let lengths = names.iter().chain(removed).map(String::len);
        if let Some(len) = lengths.max().filter(|len| *len > config.max_name_len) {
            return Err(StreamError::NameTooLong {
                resource_type: resource_type.clone(),
                len,
                limit: config.max_name_len,
            });
        }
        Ok(())
    }
}
