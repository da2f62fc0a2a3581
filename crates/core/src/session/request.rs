//! What arrives, and how the two variants are one.

use std::{borrow::Cow, collections::HashMap};

use envoy_types::pb::{envoy::config::core::v3::Node, google::rpc::Status};
use oxds_types::{
    ResourceType,
    discovery::{DeltaDiscoveryRequest, DiscoveryRequest, ResourceLocator},
    name::canonical,
};

use super::{Config, StreamError};
use crate::snapshot::Protocol;

/// A message of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// On a stream of the SotW variant.
    Sotw(DiscoveryRequest),
    /// On a stream of the delta variant.
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
    /// Who asks: the client need say so in the first request of a stream only.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }

    /// The same, to be told otherwise.
    pub fn node_mut(&mut self) -> &mut Option<Node> {
        match self {
            Self::Sotw(request) => &mut request.node,
            Self::Delta(request) => &mut request.node,
        }
    }

    /// What is asked for.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match self {
            Self::Sotw(request) => &request.type_url,
            Self::Delta(request) => &request.type_url,
        }
    }

    /// The names that are asked for: all of them in SotW, those besides in delta.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::Sotw(request) => &request.resource_names,
            Self::Delta(request) => &request.resource_names_subscribe,
        }
    }

    /// Why the client rejects a response, if it does.
    #[must_use]
    pub fn error_detail(&self) -> Option<&Status> {
        match self {
            Self::Sotw(request) => request.error_detail.as_ref(),
            Self::Delta(request) => request.error_detail.as_ref(),
        }
    }
}

/// A request, with what both variants have in common taken apart from what they have not.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) node: Option<Node>,
    pub(super) type_url: String,
    /// The response that this answers; empty if none.
    pub(super) nonce: String,
    /// Present in a rejection.
    pub(super) error: Option<Status>,
    pub(super) names: RequestedNames,
}

/// How a request speaks of the subscription.
#[derive(Debug)]
pub(super) enum RequestedNames {
    /// All that is asked for.
    Sotw { names: Vec<String>, version: String },
    /// What is asked for besides, or not any more.
    Delta {
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
        initial_versions: HashMap<String, String>,
    },
}

impl Parsed {
    pub(super) fn new(request: Request, protocol: Protocol) -> Result<Self, StreamError> {
        match (request, protocol) {
            (Request::Sotw(request), Protocol::Sotw) => Ok(Self {
                node: request.node,
                type_url: request.type_url,
                nonce: request.response_nonce,
                error: request.error_detail,
                names: RequestedNames::Sotw {
                    names: with_locators(request.resource_names, request.resource_locators),
                    version: request.version_info,
                },
            }),
            (Request::Delta(request), Protocol::Delta) => Ok(Self {
                node: request.node,
                type_url: request.type_url,
                nonce: request.response_nonce,
                error: request.error_detail,
                names: RequestedNames::Delta {
                    subscribe: with_locators(
                        request.resource_names_subscribe,
                        request.resource_locators_subscribe,
                    ),
                    unsubscribe: with_locators(
                        request.resource_names_unsubscribe,
                        request.resource_locators_unsubscribe,
                    ),
                    initial_versions: by_kept_name(request.initial_resource_versions),
                },
            }),
            _ => Err(StreamError::WrongProtocol),
        }
    }
}

/// A locator without dynamic parameters is another way to write a name. Every name is spelt as it is kept.
fn with_locators(mut names: Vec<String>, locators: Vec<ResourceLocator>) -> Vec<String> {
    names.extend(locators.into_iter().map(|locator| locator.name));
    for name in &mut names {
        if let Cow::Owned(spelt) = canonical(name) {
            *name = spelt;
        }
    }
    names
}

/// The versions that the client has, by names as they are kept.
fn by_kept_name(versions: HashMap<String, String>) -> HashMap<String, String> {
    if !versions
        .keys()
        .any(|name| matches!(canonical(name), Cow::Owned(_)))
    {
        return versions;
    }
    let versions = versions.into_iter();
    versions
        .map(|(name, version)| (canonical(&name).into_owned(), version))
        .collect()
}

impl RequestedNames {
    /// Whether a client may say this much (S-60).
    pub(super) fn check(
        &self,
        resource_type: &ResourceType,
        config: &Config,
    ) -> Result<(), StreamError> {
        let (names, besides): (&[String], &[String]) = match self {
            Self::Sotw { names, .. } => (names, &[]),
            Self::Delta {
                subscribe,
                unsubscribe,
                ..
            } => (subscribe, unsubscribe),
        };
        if names.len().max(besides.len()) > config.max_names {
            return Err(StreamError::TooManyNames {
                resource_type: resource_type.clone(),
                limit: config.max_names,
            });
        }
        let longest = names
            .iter()
            .chain(besides)
            .map(String::len)
            .max()
            .unwrap_or(0);
        if longest > config.max_name_len {
            let limit = config.max_name_len;
            return Err(StreamError::NameTooLong {
                resource_type: resource_type.clone(),
                len: longest,
                limit,
            });
        }
        Ok(())
    }
}
