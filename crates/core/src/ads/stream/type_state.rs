//! One kind on the stream: what is asked for, what is accepted, and the request that says so.
//!
//! Fields are grouped by when they reset: the nonce goes with the stream; the accepted version survives it
//! (xDS protocol, "ACK/NACK and versioning"), for as long as what it stands for is held.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status};
use oxds_types::name::{WILDCARD, collection_of};

use crate::snapshot::Protocol;

/// `google.rpc.Code.INVALID_ARGUMENT`: the code of every NACK (gRFC A46).
const INVALID_ARGUMENT: i32 = 3;

#[derive(Debug, Default)]
pub(super) struct TypeState {
    pub(super) names: BTreeSet<Arc<str>>,

    // Survives the stream. Of differences there is none: each resource has its own.
    pub(super) version: String,

    // Survives the stream, until the server answers.
    /// Another server's word counts instead of what it sent.
    pub(super) superseded: bool,

    // Reset with the stream.
    pub(super) nonce: String,
    /// The server was told that something of it is held.
    claimed: bool,
    /// NameSyntax have been sent on it. Before that, an empty list would mean everything (C-75).
    has_named: bool,
    /// What the server has yet to be told of a subscription to differences.
    changes: Changes,
    /// The response with this nonce is to be answered.
    pub(super) unanswered: bool,
    /// A request is due.
    pub(super) due: bool,
    /// The request that is due is a NACK, for this reason.
    pub(super) nack: Option<String>,
}

/// NameSyntax that come and go. One may have been given up and taken up again since: it is among the new ones then, to be
/// sent again, for it is not held any more.
#[derive(Debug, Default)]
struct Changes {
    new: BTreeSet<Arc<str>>,
    gone: BTreeSet<Arc<str>>,
}

impl TypeState {
    pub(super) fn subscribe(&mut self, name: Arc<str>, protocol: Protocol) {
        if self.names.insert(Arc::clone(&name)) {
            self.due = true;
            if protocol == Protocol::Delta {
                self.changes.gone.remove(&name);
                self.changes.new.insert(name);
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, name: &str, protocol: Protocol) {
        if let Some(name) = self.names.take(name) {
            self.due = true;
            if protocol == Protocol::Delta {
                self.changes.new.remove(&name);
                self.changes.gone.insert(name);
            }
        }
    }

    /// Another server's word counts from now on. Whether this one was told otherwise on this stream.
    pub(super) fn supersede(&mut self) -> bool {
        self.version.clear();
        self.superseded = true;
        self.claimed
    }

    /// The stream ended.
    pub(super) fn reset(&mut self, protocol: Protocol) {
        self.nonce.clear();
        self.claimed = false;
        self.nack = None;
        self.has_named = false;
        if protocol == Protocol::Delta {
            self.changes.new.clone_from(&self.names);
            self.changes.gone.clear();
        }
        self.unanswered = false;
        self.due = !self.names.is_empty();
    }

    /// By its name, or by one that stands for it.
    pub(super) fn asks_for(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.names.contains(WILDCARD)
            || collection_of(name).is_some_and(|own| self.names.contains(own.as_str()))
    }

    pub(super) fn is_due(&self) -> bool {
        self.due && (self.has_named || !self.names.is_empty())
    }

    pub(super) fn request(&mut self, type_url: &str, node: Option<Node>) -> DiscoveryRequest {
        self.due = false;
        self.has_named = true;
        self.claimed = !self.version.is_empty();
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
            error_detail: self.rejection(),
            ..DiscoveryRequest::default()
        }
    }

    /// A change of subscription, an answer, or both. What is said on its own has no nonce (C-277).
    pub(super) fn difference(
        &mut self,
        type_url: &str,
        node: Option<Node>,
        held: impl Fn(&str) -> Vec<(String, String)>,
    ) -> DeltaDiscoveryRequest {
        self.due = false;
        let first = !std::mem::replace(&mut self.has_named, true);
        let Changes { new, gone } = std::mem::take(&mut self.changes);
        let texts = |names: &BTreeSet<Arc<str>>| names.iter().map(ToString::to_string).collect();
        let claims: HashMap<_, _> = match first && !self.superseded {
            true => new.iter().flat_map(|name| held(name)).collect(),
            false => HashMap::new(),
        };
        self.claimed |= !claims.is_empty();
        DeltaDiscoveryRequest {
            node,
            type_url: type_url.to_owned(),
            resource_names_subscribe: texts(&new),
            resource_names_unsubscribe: texts(&gone),
            initial_resource_versions: claims,
            response_nonce: match std::mem::take(&mut self.unanswered) {
                true => self.nonce.clone(),
                false => String::new(),
            },
            error_detail: self.rejection(),
            ..DeltaDiscoveryRequest::default()
        }
    }

    fn rejection(&mut self) -> Option<Status> {
        self.nack.take().map(|message| Status {
            code: INVALID_ARGUMENT,
            message,
            details: Vec::new(),
        })
    }
}
