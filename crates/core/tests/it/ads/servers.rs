//! Several servers with letters as names, and a client whose actions are shown as text.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::ads::{AdsTransmit, AuthorityId, Client, ClientConfig, Protocol, Server, ServerId};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, Node, Resource as Wrapper,
};

use super::{cluster, response, told};

/// A time longer than any backoff.
const LONG: Duration = Duration::from_secs(200);

/// A client of several servers with letters as names.
pub(super) struct Servers {
    pub(super) client: Client,
    pub(super) now: Instant,
    ids: Vec<(char, ServerId)>,
    authorities: Vec<AuthorityId>,
}

impl Servers {
    /// By authority: its servers, in order of priority.
    pub(super) fn new(authorities: &[&str]) -> Self {
        Self::of(authorities, Protocol::Sotw, None)
    }

    /// The same; one authority falls back on reachability only (gRFC A95).
    pub(super) fn with_eager(authorities: &[&str], eager: usize) -> Self {
        Self::of(authorities, Protocol::Sotw, Some(eager))
    }

    /// The same with delta streams.
    pub(super) fn of_differences(authorities: &[&str]) -> Self {
        Self::of(authorities, Protocol::Delta, None)
    }

    fn of(authorities: &[&str], protocol: Protocol, eager: Option<usize>) -> Self {
        let mut config = ClientConfig::new(Node::default());
        let mut ids: Vec<(char, ServerId)> = Vec::new();
        let mut made = Vec::new();
        for servers in authorities {
            let mut list = Vec::new();
            for letter in servers.chars() {
                let known = ids.iter().find(|(known, _)| *known == letter);
                list.push(known.map(|(_, id)| *id).unwrap_or_else(|| {
                    let id = config.add_server(Server {
                        protocol,
                        ..Server::new(letter.to_string())
                    });
                    ids.push((letter, id));
                    id
                }));
            }
            made.push(config.add_authority(list));
        }
        if let Some(eager) = eager {
            config.fall_back_on_reachability_only(made[eager]);
        }
        Self {
            client: Client::new(config),
            now: Instant::EPOCH,
            ids,
            authorities: made,
        }
    }

    pub(super) fn id(&self, letter: char) -> ServerId {
        let found = self.ids.iter().find(|(known, _)| *known == letter);
        found.unwrap().1
    }

    pub(super) fn letter(&self, id: ServerId) -> char {
        let found = self.ids.iter().find(|(_, known)| *known == id);
        found.unwrap().0
    }

    pub(super) fn watch(&mut self, authority: usize, name: &str) -> Vec<String> {
        self.watch_of(&ResourceType::CLUSTER, authority, name)
    }

    pub(super) fn watch_of(
        &mut self,
        resource_type: &ResourceType,
        authority: usize,
        name: &str,
    ) -> Vec<String> {
        let authority = self.authorities[authority];
        let told_at_once = self
            .client
            .watch(authority, resource_type, &Arc::from(name));
        told_at_once.iter().map(told).collect()
    }

    /// Actions as text: `P open`, `P close`, `P a,b v1` for a SotW request; for a delta request `P +a,b` with initial
    /// versions as `a=v1`, or `P ok` for an ACK.
    pub(super) fn transmits(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some((server, transmit)) = self.client.poll_transmit(self.now) {
            let letter = self.letter(server);
            words.push(match transmit {
                AdsTransmit::Open => format!("{letter} open"),
                AdsTransmit::Close => format!("{letter} close"),
                AdsTransmit::SotwRequest(request) => format!("{letter} {}", essence(&request)),
                AdsTransmit::DeltaRequest(request) => format!("{letter} {}", difference(&request)),
            });
        }
        words
    }

    pub(super) fn opened(&mut self, server: char) -> Vec<String> {
        self.client.handle_opened(self.id(server));
        self.transmits()
    }

    pub(super) fn fails(&mut self, server: char) -> Vec<String> {
        let cause = format!("{server} is down");
        self.client
            .handle_closed(self.now, self.id(server), &cause, u64::MAX / 2);
        self.transmits()
    }

    pub(super) fn responds(
        &mut self,
        server: char,
        version: &str,
        clusters: Vec<Any>,
    ) -> Vec<String> {
        self.responds_of(&ResourceType::CLUSTER, server, version, clusters)
    }

    pub(super) fn responds_of(
        &mut self,
        resource_type: &ResourceType,
        server: char,
        version: &str,
        resources: Vec<Any>,
    ) -> Vec<String> {
        let nonce = format!("n-{version}");
        let response = response(resource_type, version, &nonce, resources);
        self.client
            .handle_response(self.now, self.id(server), response);
        self.transmits()
    }

    /// A delta response: clusters, each with its version.
    pub(super) fn sends(&mut self, server: char, clusters: &[(&str, &str)]) -> Vec<String> {
        let wrapped = clusters.iter().map(|(name, version)| Wrapper {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            resource: Some(cluster(name, version)),
            ..Wrapper::default()
        });
        let response = DeltaDiscoveryResponse {
            resources: wrapped.collect(),
            type_url: ResourceType::CLUSTER.type_url().to_owned(),
            nonce: "n".to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        self.client
            .handle_delta_response(self.now, self.id(server), response);
        self.transmits()
    }

    /// The client connects to a server again.
    pub(super) fn waits(&mut self) -> Vec<String> {
        self.now += LONG;
        self.client.handle_timeout(self.now);
        self.transmits()
    }

    pub(super) fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.client.poll_event())
            .map(|event| told(&event))
            .collect()
    }

    pub(super) fn from(&self, name: &str) -> String {
        let held = self
            .client
            .cached(&ResourceType::CLUSTER, name)
            .unwrap()
            .held;
        let sender = held.map(|held| held.server);
        let sender = self.ids.iter().find(|(_, id)| Some(*id) == sender);
        sender.map_or("none".into(), |(letter, _)| letter.to_string())
    }
}

fn essence(request: &DiscoveryRequest) -> String {
    let names = request.resource_names.join(",");
    format!("{names} {}", request.version_info)
        .trim_end()
        .to_owned()
}

fn difference(request: &DeltaDiscoveryRequest) -> String {
    let mut words = Vec::new();
    if !request.resource_names_subscribe.is_empty() {
        words.push(format!("+{}", request.resource_names_subscribe.join(",")));
    }
    let versions = request.initial_resource_versions.iter();
    let mut versions: Vec<_> = versions.map(|(name, of)| format!("{name}={of}")).collect();
    versions.sort();
    words.extend(versions);
    if !request.response_nonce.is_empty() {
        words.push("ok".to_owned());
    }
    words.join(" ")
}

/// `P` and `F`; `a` is watched and was sent by `P`.
pub(super) fn served_by_first() -> Servers {
    let mut servers = Servers::new(&["PF"]);
    servers.watch(0, "a");
    assert_eq!(servers.transmits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a"]);
    assert_eq!(
        servers.responds('P', "p1", vec![cluster("a", "p")]),
        ["P a p1"]
    );
    assert_eq!(servers.events(), ["a: changed"]);
    servers
}

/// `P` sent `a` and was lost; `F` has the subscriptions `a` and `b`.
pub(super) fn fallen_back() -> Servers {
    let mut servers = served_by_first();
    servers.watch(0, "b");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.opened('F'), ["F a,b"]);
    servers.events();
    servers
}
