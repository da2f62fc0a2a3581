//! One resource type of the model client.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::google::rpc::Status;
use oxds_core::{session::Request, snapshot::Protocol};
use oxds_types::{
    ResourceType, Version,
    discovery::{DeltaDiscoveryRequest, DiscoveryRequest},
};

#[derive(Debug, Default)]
pub(super) struct ModelType {
    /// By name: the text in use.
    pub(super) texts: BTreeMap<String, String>,
    /// Those of them that were in an ACKed response.
    pub(super) acknowledged: BTreeSet<String>,
    /// Subscribed names on this stream.
    pub(super) asked: BTreeSet<String>,
    /// SotW: repeated in each request; the version outlives the stream.
    pub(super) version: String,
    pub(super) nonce: String,
    /// Whether a request was sent on this stream.
    pub(super) open: bool,
    /// SotW: names NACKed on a stream that began with a version, before the first ACK: the server cannot know which
    /// content the client uses instead.
    pub(super) unknown: BTreeSet<String>,
    /// SotW: names in, or absent from, a response that the client NACKed for other names.
    pub(super) nacked_with_others: BTreeSet<String>,
    /// SotW: the stream began with a version, and nothing was ACKed on it yet. If the server does not know what the
    /// version contained, it cannot leave out content that the client NACKs, since it may remove an earlier copy. So a
    /// client that rejects whole responses does not get the others.
    pub(super) is_stuck: bool,
    /// Those of them from earlier streams. On reconnect the client reports a version only, which does not cover them
    /// (S-24).
    pub(super) unreported: BTreeSet<String>,
}

impl ModelType {
    pub(super) fn request(
        &mut self,
        resource_type: &ResourceType,
        protocol: Protocol,
        names: BTreeSet<String>,
    ) -> Request {
        let before = std::mem::replace(&mut self.asked, names);
        let first = !std::mem::replace(&mut self.open, true);
        match protocol {
            Protocol::Sotw => self.sotw(resource_type, None),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                type_url: resource_type.type_url().to_owned(),
                resource_names_subscribe: self.asked.difference(&before).cloned().collect(),
                resource_names_unsubscribe: before.difference(&self.asked).cloned().collect(),
                initial_resource_versions: if first {
                    self.versions()
                } else {
                    Default::default()
                },
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    pub(super) fn answer(
        &self,
        resource_type: &ResourceType,
        protocol: Protocol,
        error: Option<Status>,
    ) -> Request {
        match protocol {
            Protocol::Sotw => self.sotw(resource_type, error),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                type_url: resource_type.type_url().to_owned(),
                response_nonce: self.nonce.clone(),
                error_detail: error,
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    pub(super) fn sotw(&self, resource_type: &ResourceType, error: Option<Status>) -> Request {
        Request::Sotw(DiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names: self.asked.iter().cloned().collect(),
            version_info: self.version.clone(),
            response_nonce: self.nonce.clone(),
            error_detail: error,
            ..DiscoveryRequest::default()
        })
    }

    pub(super) fn versions(&self) -> std::collections::HashMap<String, String> {
        let version = |text: &String| Version::of(text.as_bytes()).to_string();
        self.texts
            .iter()
            .map(|(name, text)| (name.clone(), version(text)))
            .collect()
    }
}
