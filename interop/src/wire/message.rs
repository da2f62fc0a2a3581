//! Discovery messages of both variants, in one form.

use std::fmt;

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status;
use prost::Message as _;

/// The variants of the ADS stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Sotw,
    Delta,
}

/// One discovery message.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Request(Request),
    Response(Response),
}

/// A subscription, ACK or NACK.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The message's short name: `Cluster`.
    pub(crate) kind: String,
    /// SotW: the subscribed names. Delta: the added names.
    pub(crate) names: Vec<String>,
    /// Delta: the removed names.
    pub(crate) unsubscribed: Vec<String>,
    /// Delta: number of resources in `initial_resource_versions`.
    pub(crate) initial: usize,
    pub(crate) nonce: String,
    /// Reason of a NACK.
    pub(crate) error: Option<String>,
}

/// A response of a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) kind: String,
    pub(crate) resources: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) nonce: String,
    pub(crate) version: String,
}

impl Protocol {
    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sotw => "sotw",
            Self::Delta => "delta",
        }
    }

    pub(super) fn request(self, bytes: &[u8]) -> Option<Message> {
        let request = match self {
            Self::Sotw => DiscoveryRequest::decode(bytes).ok()?.into(),
            Self::Delta => DeltaDiscoveryRequest::decode(bytes).ok()?.into(),
        };
        Some(Message::Request(request))
    }

    pub(super) fn response(self, bytes: &[u8]) -> Option<Message> {
        let response = match self {
            Self::Sotw => DiscoveryResponse::decode(bytes).ok()?.into(),
            Self::Delta => DeltaDiscoveryResponse::decode(bytes).ok()?.into(),
        };
        Some(Message::Response(response))
    }
}

impl Message {
    pub(super) fn request(self) -> Option<Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Response(_) => None,
        }
    }

    pub(super) fn response(self) -> Option<Response> {
        match self {
            Self::Response(response) => Some(response),
            Self::Request(_) => None,
        }
    }
}

impl From<DiscoveryRequest> for Request {
    fn from(request: DiscoveryRequest) -> Self {
        Self {
            kind: short(&request.type_url),
            names: request.resource_names,
            unsubscribed: Vec::new(),
            initial: 0,
            nonce: request.response_nonce,
            error: request.error_detail.map(reason),
        }
    }
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(request: DeltaDiscoveryRequest) -> Self {
        Self {
            kind: short(&request.type_url),
            names: request.resource_names_subscribe,
            unsubscribed: request.resource_names_unsubscribe,
            initial: request.initial_resource_versions.len(),
            nonce: request.response_nonce,
            error: request.error_detail.map(reason),
        }
    }
}

impl From<DiscoveryResponse> for Response {
    fn from(response: DiscoveryResponse) -> Self {
        Self {
            kind: short(&response.type_url),
            resources: response.resources.iter().map(name).collect(),
            removed: Vec::new(),
            nonce: response.nonce,
            version: response.version_info,
        }
    }
}

impl From<DeltaDiscoveryResponse> for Response {
    fn from(response: DeltaDiscoveryResponse) -> Self {
        Self {
            kind: short(&response.type_url),
            resources: response
                .resources
                .into_iter()
                .map(|resource| resource.name)
                .collect(),
            removed: response.removed_resources,
            nonce: response.nonce,
            version: response.system_version_info,
        }
    }
}

/// Listener, RouteConfiguration, Cluster and ClusterLoadAssignment all have their name in field 1.
fn name(resource: &Any) -> String {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Named {
        #[prost(string, tag = "1")]
        name: String,
    }
    Named::decode(resource.value.as_slice()).map_or_else(|e| format!("<{e}>"), |named| named.name)
}

fn short(type_url: &str) -> String {
    type_url.rsplit('.').next().unwrap_or_default().to_owned()
}

fn reason(status: Status) -> String {
    status.message
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(r) => {
                write!(f, "> {} nonce={:?} names={:?}", r.kind, r.nonce, r.names)?;
                if !r.unsubscribed.is_empty() {
                    write!(f, " unsubscribed={:?}", r.unsubscribed)?;
                }
                if r.initial > 0 {
                    write!(f, " initial={}", r.initial)?;
                }
                r.error
                    .as_ref()
                    .map_or(Ok(()), |error| write!(f, " NACK {error:?}"))
            }
            Self::Response(r) => {
                write!(
                    f,
                    "< {} nonce={:?} version={:?}",
                    r.kind, r.nonce, r.version
                )?;
                write!(f, " resources={:?}", r.resources)?;
                if r.removed.is_empty() {
                    Ok(())
                } else {
                    write!(f, " removed={:?}", r.removed)
                }
            }
        }
    }
}
