//! One stream as its client sees it: requests, and decoded responses.

use std::{collections::HashMap, sync::Arc, time::Duration};

use envoy_types::pb::{envoy::config::core::v3::Node, google::rpc::Status};
use oxds_core::{
    session::{Config, Event, Scope, Session, StreamError, TransmitResponse},
    snapshot::Protocol,
    time::Instant,
};
use oxds_types::{
    ResourceType,
    discovery::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Resource, ResourceError,
    },
};
use prost::Message;

use super::World;

/// Decoded response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) type_url: String,
    pub(crate) version: String,
    pub(crate) nonce: String,
    /// Contents (`"A=1"`), in the order of the response.
    pub(crate) resources: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Delta: names and versions of the resources.
    pub(crate) names: Vec<(String, String)>,
    /// TTL of each resource.
    pub(crate) ttls: Vec<Option<Duration>>,
    /// Heartbeats: resources without a body.
    pub(crate) beats: Vec<Beat>,
    /// Name, code and message of each resource error.
    pub(crate) errors: Vec<(String, i32, String)>,
    /// Length of the message in bytes.
    pub(crate) len: usize,
    /// Delta: aliases without a resource.
    pub(crate) unresolved: Vec<String>,
    /// `control_plane.identifier`.
    pub(crate) identifier: Option<String>,
}

/// Heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beat {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) ttl: Duration,
}

impl Beat {
    fn of(resource: &Resource) -> Self {
        Self {
            name: resource.name.clone(),
            version: resource.version.clone(),
            ttl: ttl_of(resource).expect("a heartbeat has a TTL"),
        }
    }
}

fn errors_of(errors: Vec<ResourceError>) -> Vec<(String, i32, String)> {
    let errors = errors.into_iter().map(|error| {
        let status = error.error_detail.unwrap();
        (
            error.resource_name.unwrap().name,
            status.code,
            status.message,
        )
    });
    errors.collect()
}

fn ttl_of(resource: &Resource) -> Option<Duration> {
    let ttl = resource.ttl.as_ref()?;
    let (seconds, nanos) = (u64::try_from(ttl.seconds), u32::try_from(ttl.nanos));
    Some(Duration::new(seconds.unwrap(), nanos.unwrap()))
}

impl Reply {
    pub(crate) fn decode(protocol: Protocol, transmit: &TransmitResponse) -> Self {
        let message = transmit.frame.message();
        assert_eq!(
            message.len() + 5,
            transmit.frame.len(),
            "the gRPC header has five bytes"
        );
        let len = message.len();
        let mut reply = match protocol {
            Protocol::Sotw => Self::sotw(DiscoveryResponse::decode(message).unwrap()),
            Protocol::Delta => Self::delta(DeltaDiscoveryResponse::decode(message).unwrap()),
        };
        reply.len = len;
        assert_eq!(reply.nonce, transmit.nonce.to_string());
        assert_eq!(reply.version, transmit.version.to_string());
        let beats = reply.beats.iter().map(|beat| &beat.name);
        assert_eq!(
            reply.resources.len() + beats.len() + reply.unresolved.len(),
            transmit.resources
        );
        assert_eq!(reply.removed.len(), transmit.removed);
        // S-28: no name twice.
        let mut seen: Vec<&str> = reply.resources.iter().map(|text| name_of(text)).collect();
        seen.extend(beats.map(String::as_str));
        seen.extend(reply.removed.iter().map(String::as_str));
        seen.sort_unstable();
        assert!(
            seen.windows(2).all(|pair| pair[0] != pair[1]),
            "a name twice: {reply:?}"
        );
        reply
    }

    fn sotw(response: DiscoveryResponse) -> Self {
        let type_url = response.type_url;
        let (mut resources, mut ttls, mut beats) = (Vec::new(), Vec::new(), Vec::new());
        for mut any in response.resources {
            let mut ttl = None;
            if any.type_url.ends_with(".Resource") {
                let wrapper = Resource::decode(any.value).unwrap();
                ttl = ttl_of(&wrapper);
                let Some(inner) = wrapper.resource.clone() else {
                    beats.push(Beat::of(&wrapper));
                    continue;
                };
                any = inner;
            }
            assert_eq!(any.type_url, type_url);
            resources.push(String::from_utf8(any.value.to_vec()).unwrap());
            ttls.push(ttl);
        }
        Self {
            resources,
            ttls,
            beats,
            type_url: type_url.clone(),
            version: response.version_info,
            nonce: response.nonce,
            removed: Vec::new(),
            names: Vec::new(),
            errors: errors_of(response.resource_errors),
            len: 0,
            unresolved: Vec::new(),
            identifier: response.control_plane.map(|plane| plane.identifier),
        }
    }

    fn delta(response: DeltaDiscoveryResponse) -> Self {
        let mut resources = Vec::new();
        let mut names = Vec::new();
        let (mut ttls, mut beats, mut unresolved) = (Vec::new(), Vec::new(), Vec::new());
        for resource in response.resources {
            let ttl = ttl_of(&resource);
            let is_alias = resource.aliases == [&*resource.name];
            assert_eq!(is_alias, response.type_url.ends_with(".VirtualHost"));
            let Some(any) = resource.resource.clone() else {
                if ttl.is_none() && is_alias {
                    unresolved.push(resource.name);
                    continue;
                }
                beats.push(Beat::of(&resource));
                continue;
            };
            ttls.push(ttl);
            assert_eq!(any.type_url, response.type_url);
            let text = String::from_utf8(any.value.to_vec()).unwrap();
            assert_eq!(resource.name, name_of(&text));
            resources.push(text);
            names.push((resource.name, resource.version));
        }
        Self {
            unresolved,
            type_url: response.type_url,
            version: response.system_version_info,
            nonce: response.nonce,
            resources,
            removed: response.removed_resources,
            names,
            ttls,
            beats,
            errors: errors_of(response.resource_errors),
            len: 0,
            identifier: response.control_plane.map(|plane| plane.identifier),
        }
    }

    /// The kind's short name.
    pub(crate) fn resource_type(&self) -> &'static str {
        let (resource_type, _) = ResourceType::from_type_url(&self.type_url).unwrap();
        resource_type.short_name().unwrap()
    }
}

/// The name in `"A=1"`.
pub(crate) fn name_of(text: &str) -> &str {
    text.split_once('=').map_or(text, |(name, _)| name)
}

/// Scripted client: it sends only what a scenario makes it send.
pub(crate) struct Stream {
    pub(crate) session: Session,
    pub(crate) now: Instant,
    protocol: Protocol,
    /// SotW: fields that each request of a type repeats.
    asked: HashMap<ResourceType, RepeatedFields>,
}

#[derive(Default, Clone)]
struct RepeatedFields {
    names: Vec<String>,
    version: String,
    nonce: String,
}

/// Returns the default configuration with these changes.
pub(crate) fn configured(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

impl Stream {
    pub(crate) fn sotw() -> Self {
        Self::open(Protocol::Sotw, Scope::Aggregated, Config::default())
    }

    pub(crate) fn delta() -> Self {
        Self::open(Protocol::Delta, Scope::Aggregated, Config::default())
    }

    pub(crate) fn open(protocol: Protocol, scope: Scope, config: Config) -> Self {
        Self {
            session: Session::new(protocol, scope, Arc::new(config)),
            now: Instant::EPOCH,
            protocol,
            asked: HashMap::new(),
        }
    }

    pub(crate) fn is_sotw(&self) -> bool {
        self.protocol == Protocol::Sotw
    }

    /// All responses that the server sends now.
    pub(crate) fn poll(&mut self, world: &World) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(transmit) = self.session.poll_transmit(self.now, &world.snapshot) {
            let reply = Reply::decode(self.protocol, &transmit);
            let asked = self.asked.entry(transmit.resource_type).or_default();
            asked.nonce.clone_from(&reply.nonce);
            replies.push(reply);
            assert!(replies.len() < 1000, "the session never stops sending");
        }
        replies
    }

    /// The only response that the server sends now.
    #[track_caller]
    pub(crate) fn reply(&mut self, world: &World) -> Reply {
        let mut replies = self.poll(world);
        assert_eq!(replies.len(), 1, "one reply expected: {replies:?}");
        replies.remove(0)
    }

    #[track_caller]
    pub(crate) fn silent(&mut self, world: &World) {
        assert_eq!(self.poll(world), [], "nothing expected");
    }

    /// The only response, which is ACKed.
    #[track_caller]
    pub(crate) fn take(&mut self, world: &World) -> Reply {
        let reply = self.reply(world);
        self.ack(&reply);
        reply
    }

    /// All responses until the last; each is ACKed when it arrives.
    pub(crate) fn drain(&mut self, world: &World) -> Vec<Reply> {
        let mut all = Vec::new();
        loop {
            let replies = self.poll(world);
            if replies.is_empty() {
                return all;
            }
            replies.iter().for_each(|reply| self.ack(reply));
            all.extend(replies);
        }
    }

    /// ACKs all responses of now, without polling for those that follow.
    pub(crate) fn ack_all(&mut self, world: &World) {
        let replies = self.poll(world);
        replies.iter().for_each(|reply| self.ack(reply));
    }

    /// Lets time pass; timers fire at their deadlines.
    pub(crate) fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(deadline) = self
            .session
            .poll_timeout()
            .filter(|deadline| *deadline <= end)
        {
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            assert_ne!(
                self.session.poll_timeout(),
                Some(deadline),
                "a timer that fires again and again"
            );
        }
        self.now = end;
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    /// SotW: subscribes to these names instead of the previous ones.
    pub(crate) fn ask(&mut self, resource_type: &ResourceType, names: &[&str]) {
        let asked = self.asked.entry(resource_type.clone()).or_default();
        asked.names = list(names);
        let request = asked.request(resource_type);
        self.send(request);
    }

    /// SotW: as [`ask`](Self::ask), on a new stream, with a version from an earlier stream.
    pub(crate) fn ask_again(
        &mut self,
        resource_type: &ResourceType,
        names: &[&str],
        version: &str,
    ) {
        self.asked.entry(resource_type.clone()).or_default().version = version.to_owned();
        self.ask(resource_type, names);
    }

    /// SotW: changes the names of the next request of the type, without sending it.
    pub(crate) fn will_ask(&mut self, resource_type: &ResourceType, names: &[&str]) {
        self.asked.entry(resource_type.clone()).or_default().names = list(names);
    }

    /// Delta: subscribes and unsubscribes.
    pub(crate) fn change(
        &mut self,
        resource_type: &ResourceType,
        subscribe: &[&str],
        unsubscribe: &[&str],
    ) {
        self.send(delta(resource_type, subscribe, unsubscribe));
    }

    /// Delta: a first request with initial versions.
    pub(crate) fn resume(
        &mut self,
        resource_type: &ResourceType,
        subscribe: &[&str],
        has: &[(String, String)],
    ) {
        let mut request = delta(resource_type, subscribe, &[]);
        request.initial_resource_versions = has.iter().cloned().collect();
        self.send(request);
    }

    pub(crate) fn ack(&mut self, reply: &Reply) {
        self.answer(reply, None);
    }

    pub(crate) fn nack(&mut self, reply: &Reply, reason: &str) {
        let status = Status {
            code: 3,
            message: reason.to_owned(),
            ..Status::default()
        };
        self.answer(reply, Some(status));
    }

    /// ACKs a response by its nonce.
    pub(crate) fn ack_nonce(&mut self, resource_type: &ResourceType, nonce: &str) {
        let request = match self.protocol {
            Protocol::Sotw => {
                let mut request = self
                    .asked
                    .entry(resource_type.clone())
                    .or_default()
                    .request(resource_type);
                request.response_nonce = nonce.to_owned();
                request.into()
            }
            Protocol::Delta => oxds_core::session::Request::Delta(DeltaDiscoveryRequest {
                response_nonce: nonce.to_owned(),
                ..delta(resource_type, &[], &[])
            }),
        };
        self.send(request);
    }

    fn answer(&mut self, reply: &Reply, error: Option<Status>) {
        let (resource_type, _) = ResourceType::from_type_url(&reply.type_url).unwrap();
        match self.protocol {
            Protocol::Sotw => {
                let asked = self.asked.entry(resource_type.clone()).or_default();
                if error.is_none() {
                    asked.version.clone_from(&reply.version);
                }
                let mut request = asked.request(&resource_type);
                request.type_url.clone_from(&reply.type_url);
                request.response_nonce.clone_from(&reply.nonce);
                request.error_detail = error;
                self.send(request);
            }
            Protocol::Delta => {
                let mut request = delta(&resource_type, &[], &[]);
                request.type_url.clone_from(&reply.type_url);
                request.response_nonce.clone_from(&reply.nonce);
                request.error_detail = error;
                self.send(request);
            }
        }
    }

    pub(crate) fn send(&mut self, request: impl Into<oxds_core::session::Request>) {
        self.try_send(request)
            .expect("a request that the session takes");
    }

    pub(crate) fn try_send(
        &mut self,
        request: impl Into<oxds_core::session::Request>,
    ) -> Result<(), StreamError> {
        self.session.handle_request(self.now, request.into())
    }
}

impl RepeatedFields {
    fn request(&self, resource_type: &ResourceType) -> DiscoveryRequest {
        DiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names: self.names.clone(),
            version_info: self.version.clone(),
            response_nonce: self.nonce.clone(),
            ..DiscoveryRequest::default()
        }
    }
}

/// SotW request without version and nonce.
pub(crate) fn sotw(resource_type: &ResourceType, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: resource_type.type_url().to_owned(),
        resource_names: list(names),
        ..DiscoveryRequest::default()
    }
}

/// Delta request without versions and nonce.
pub(crate) fn delta(
    resource_type: &ResourceType,
    subscribe: &[&str],
    unsubscribe: &[&str],
) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: resource_type.type_url().to_owned(),
        resource_names_subscribe: list(subscribe),
        resource_names_unsubscribe: list(unsubscribe),
        ..DeltaDiscoveryRequest::default()
    }
}

pub(crate) fn node(id: &str) -> Option<Node> {
    Some(Node {
        id: id.to_owned(),
        ..Node::default()
    })
}

/// Node with these client features.
pub(crate) fn node_with(features: &[&str]) -> Option<Node> {
    Some(Node {
        client_features: list(features),
        ..Node::default()
    })
}

pub(crate) fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
