//! The client's machine, against a server that the test plays.

mod acknowledgement;
mod collections;
mod connected;
mod cost;
mod data_errors;
mod deletion;
mod delta;
mod errors;
mod fallback;
mod faults;
mod reported;
mod returning;
mod senders;
mod servers;
mod sources;
mod streams;
mod subscription;
mod terse;
mod ttl;
mod typed;
mod versions;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::support::resources::{any, bad_cluster, cluster};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use oxds_core::ads::{
    AdsTransmit, AuthorityId, Client, ClientConfig, ClientEvent, Server, ServerId,
};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse, Node};

/// A client and the time.
pub(crate) struct Played {
    pub(crate) client: Client,
    pub(crate) now: Instant,
}

impl Played {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let node = Node {
            id: "node-1".to_owned(),
            ..Node::default()
        };
        let mut config = ClientConfig::with_server(Server::new("cp:18000"), node);
        change(&mut config);
        Self::of(config)
    }

    pub(crate) fn of(config: ClientConfig) -> Self {
        Self {
            client: Client::new(config),
            now: Instant::EPOCH,
        }
    }

    /// A client that watches these clusters on an open stream, and has sent its first request.
    pub(crate) fn watching_clusters(names: &[&str]) -> (Self, DiscoveryRequest) {
        let mut played = Self::new();
        for name in names {
            played.watch(&ResourceType::CLUSTER, name);
        }
        played.open();
        let request = played.request();
        (played, request)
    }

    pub(crate) fn watch(&mut self, resource_type: &ResourceType, name: &str) -> Vec<String> {
        self.client
            .watch(AuthorityId::default(), resource_type, &Arc::from(name))
            .iter()
            .map(told)
            .collect()
    }

    pub(crate) fn unwatch(&mut self, resource_type: &ResourceType, name: &str) {
        self.client.unwatch(resource_type, name);
    }

    /// The driver connects as the client asks.
    pub(crate) fn open(&mut self) {
        assert_eq!(self.transmit(), Some(AdsTransmit::Open));
        self.client.handle_opened(ServerId::default());
    }

    pub(crate) fn close(&mut self, cause: &str) {
        self.client
            .handle_closed(self.now, ServerId::default(), cause, u64::MAX / 2);
    }

    pub(crate) fn transmit(&mut self) -> Option<AdsTransmit> {
        let (_, transmit) = self.client.poll_transmit(self.now)?;
        Some(transmit)
    }

    /// The only request that is due.
    pub(crate) fn request(&mut self) -> DiscoveryRequest {
        let request = self.requests();
        assert_eq!(request.len(), 1, "one request is due, not {request:?}");
        request.into_iter().next().unwrap()
    }

    pub(crate) fn requests(&mut self) -> Vec<DiscoveryRequest> {
        let mut requests = Vec::new();
        while let Some(transmit) = self.transmit() {
            match transmit {
                AdsTransmit::SotwRequest(request) => requests.push(*request),
                other => panic!("not a request: {other:?}"),
            }
        }
        requests
    }

    pub(crate) fn respond(
        &mut self,
        resource_type: &ResourceType,
        version: &str,
        nonce: &str,
        resources: Vec<Any>,
    ) {
        self.receive(response(resource_type, version, nonce, resources));
    }

    pub(crate) fn receive(&mut self, response: DiscoveryResponse) {
        self.client
            .handle_response(self.now, ServerId::default(), response);
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
    }

    /// The events for watchers, as text.
    pub(crate) fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.client.poll_event())
            .map(|event| told(&event))
            .collect()
    }
}

pub(crate) fn response(
    resource_type: &ResourceType,
    version: &str,
    nonce: &str,
    resources: Vec<Any>,
) -> DiscoveryResponse {
    DiscoveryResponse {
        version_info: version.to_owned(),
        nonce: nonce.to_owned(),
        type_url: resource_type.type_url().to_owned(),
        resources,
        ..DiscoveryResponse::default()
    }
}

pub(crate) fn told(event: &ClientEvent) -> String {
    match event {
        ClientEvent::Changed {
            name,
            resource: Ok(_),
            ..
        } => format!("{name}: changed"),
        ClientEvent::Changed {
            name,
            resource: Err(error),
            ..
        } => format!("{name}: error: {error}"),
        ClientEvent::Ambient {
            name,
            error: Some(error),
            ..
        } => format!("{name}: ambient: {error}"),
        ClientEvent::Ambient {
            name, error: None, ..
        } => format!("{name}: current"),
        ClientEvent::DeletionIgnored { name, .. } => format!("{name}: deletion ignored"),
        ClientEvent::DeletionOver { name, is_back, .. } => {
            format!("{name}: deletion over, back: {is_back}")
        }
    }
}

pub(crate) fn assignment(name: &str) -> Any {
    let assignment = ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        ..Default::default()
    };
    any(&ResourceType::ENDPOINT, &assignment)
}
