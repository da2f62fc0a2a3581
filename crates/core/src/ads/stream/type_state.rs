//! One resource type on a stream: its subscription, its accepted version, and the next request.
//!
//! Fields are grouped by when they reset. The nonce resets with the stream; the accepted version survives the stream
//! (xDS protocol, "ACK/NACK and versioning"), as long as the client has the resources of that version.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status};
use oxds_types::name::{WILDCARD, collection_of};

use crate::protocol::Protocol;
use crate::sample::SAMPLE;

/// `google.rpc.Code.INVALID_ARGUMENT`: the code of every NACK (gRFC A46).
const INVALID_ARGUMENT: i32 = 3;

#[derive(Debug, Default)]
pub(super) struct TypeState {
    /// Subscribed names; the wildcard and xdstp collections included.
    pub(super) names: BTreeSet<Arc<str>>,

    // Survives the stream.
    /// Version of the last accepted response. Unused on delta streams, where each resource has its own version.
    ///
    /// Empty again once the client lacks a resource that the server sent with this version: then no request names the
    /// version, because a server that compares versions would not send the resource again.
    pub(super) version: String,
    /// Version of the last accepted response, also where `version` is empty again.
    accepted: String,
    /// Names that were unsubscribed while `accepted` was the version: the client has dropped their resources.
    dropped: BTreeSet<Arc<str>>,

    // Survives the stream, until the server answers.
    /// Whether another server's resources replaced those of this server.
    pub(super) superseded: bool,

    // Reset with the stream.
    /// Nonce of the last response.
    pub(super) nonce: String,
    /// Whether a response came.
    pub(super) is_answered: bool,
    /// Whether a request on this stream named versions that the client has.
    versions_sent: bool,
    /// Whether names were sent on this stream. Before that, an empty list would mean the wildcard (C-75).
    names_sent: bool,
    /// Changes of the subscription that a delta server does not know yet.
    unsent: UnsentNames,
    /// Whether the last response is not acknowledged yet.
    pub(super) ack_pending: bool,
    /// Whether a request is due.
    pub(super) request_due: bool,
    /// Reason of the NACK, if the due request is one.
    pub(super) nack: Option<String>,
}

/// Names to subscribe and to unsubscribe in the next delta request.
///
/// A name that is unsubscribed and subscribed again before the request is in `subscribe` only: the server must send it
/// again, because the client dropped it.
#[derive(Debug, Default)]
struct UnsentNames {
    subscribe: BTreeSet<Arc<str>>,
    unsubscribe: BTreeSet<Arc<str>>,
}

impl TypeState {
    pub(super) fn subscribe(&mut self, name: Arc<str>, protocol: Protocol) {
        if self.names.insert(Arc::clone(&name)) {
            self.request_due = true;
            if protocol == Protocol::Delta {
                self.unsent.unsubscribe.remove(&name);
                self.unsent.subscribe.insert(name);
            } else if self.dropped.remove(&name) {
                self.version.clear();
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, name: &str, protocol: Protocol) {
        if let Some(name) = self.names.take(name) {
            self.request_due = true;
            if protocol == Protocol::Delta {
                self.unsent.subscribe.remove(&name);
                self.unsent.unsubscribe.insert(name);
            } else if !self.accepted.is_empty() {
                self.dropped.insert(name);
            }
        }
    }

    /// Records the version of a response that was accepted.
    pub(super) fn accept(&mut self, version: String) {
        if self.accepted != version {
            self.accepted.clone_from(&version);
            self.dropped.clear();
        }
        self.version = version;
    }

    /// Marks the resources of this server as replaced by another server's. Returns whether a request on this stream
    /// named their versions.
    pub(super) fn supersede(&mut self) -> bool {
        self.version.clear();
        self.superseded = true;
        self.versions_sent
    }

    /// Resets what belongs to the stream, which has ended.
    pub(super) fn reset(&mut self, protocol: Protocol) {
        self.nonce.clear();
        self.is_answered = false;
        self.versions_sent = false;
        self.nack = None;
        self.names_sent = false;
        if protocol == Protocol::Delta {
            self.unsent.subscribe.clone_from(&self.names);
            self.unsent.unsubscribe.clear();
        }
        self.ack_pending = false;
        self.request_due = !self.names.is_empty();
    }

    /// Returns whether the name is subscribed: itself, by its collection, or by the wildcard.
    pub(super) fn is_subscribed(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.names.contains(WILDCARD)
            || collection_of(name).is_some_and(|own| self.names.contains(own.as_str()))
    }

    /// Whether the invariants hold; for debug assertions. `is_open`: a stream is open, so that messages were exchanged.
    pub(super) fn is_consistent(&self, protocol: Protocol, is_open: bool) -> bool {
        let mut names = self.names.iter().take(SAMPLE);
        let mut subscribe = self.unsent.subscribe.iter().take(SAMPLE);
        let is_unsent_known = subscribe.all(|name| self.names.contains(name))
            && names.all(|name| {
                !self.unsent.unsubscribe.contains(name) && !self.dropped.contains(name)
            });
        let is_protocol_respected = match protocol {
            Protocol::Sotw => {
                self.unsent.subscribe.is_empty() && self.unsent.unsubscribe.is_empty()
            }
            Protocol::Delta => self.dropped.is_empty(),
        };
        // The nonce, the ACK and the NACK belong to a response of the open stream.
        let is_fresh = self.nonce.is_empty()
            && self.nack.is_none()
            && !(self.is_answered || self.ack_pending || self.names_sent || self.versions_sent);
        is_unsent_known
            && is_protocol_respected
            && (is_open || is_fresh)
            && (self.names_sent || self.is_answered || self.names.is_empty() || self.request_due)
            && (self.nack.is_none() || self.request_due)
            && (self.version.is_empty() || self.version == self.accepted)
    }

    pub(super) fn has_request(&self) -> bool {
        // xDS protocol, "How the client specifies what resources to return": an empty first list subscribes to the
        // wildcard, so no request without names is sent before one with names (C-75).
        self.request_due && (self.names_sent || !self.names.is_empty())
    }

    /// Whether no request of this type was sent on this stream.
    pub(super) fn is_first(&self) -> bool {
        !self.names_sent
    }

    pub(super) fn sotw_request(&mut self, type_url: &str, node: Option<Node>) -> DiscoveryRequest {
        self.request_due = false;
        self.names_sent = true;
        self.versions_sent = !self.version.is_empty();
        DiscoveryRequest {
            version_info: self.version.clone(),
            node,
            resource_names: self
                .names
                .iter()
                .map(|name| name.as_ref().to_owned())
                .collect(),
            type_url: type_url.to_owned(),
            response_nonce: self.nonce.clone(),
            error_detail: self.take_nack(),
            ..DiscoveryRequest::default()
        }
    }

    /// Returns a change of subscription, an ACK or NACK, or both in one request.
    pub(super) fn delta_request(
        &mut self,
        type_url: &str,
        node: Option<Node>,
        cached: impl Fn(&str) -> Vec<(String, String)>,
    ) -> DeltaDiscoveryRequest {
        self.request_due = false;
        let first = !std::mem::replace(&mut self.names_sent, true);
        let UnsentNames {
            subscribe,
            unsubscribe,
        } = std::mem::take(&mut self.unsent);
        let texts = |names: &BTreeSet<Arc<str>>| names.iter().map(ToString::to_string).collect();
        // DeltaDiscoveryRequest.initial_resource_versions: only in the first request of a type on a stream. A
        // superseded server must send everything again, so it gets no versions (C-163).
        let initial_versions: HashMap<_, _> = if first && !self.superseded {
            subscribe.iter().flat_map(|name| cached(name)).collect()
        } else {
            HashMap::new()
        };
        self.versions_sent |= !initial_versions.is_empty();
        DeltaDiscoveryRequest {
            node,
            type_url: type_url.to_owned(),
            resource_names_subscribe: texts(&subscribe),
            resource_names_unsubscribe: texts(&unsubscribe),
            initial_resource_versions: initial_versions,
            // DeltaDiscoveryRequest.response_nonce: empty in a request that acknowledges nothing (C-277).
            response_nonce: if std::mem::take(&mut self.ack_pending) {
                self.nonce.clone()
            } else {
                String::new()
            },
            error_detail: self.take_nack(),
            ..DeltaDiscoveryRequest::default()
        }
    }

    fn take_nack(&mut self) -> Option<Status> {
        self.nack.take().map(|message| Status {
            code: INVALID_ARGUMENT,
            message,
            details: Vec::new(),
        })
    }
}
