//! C-144, C-195: parsed values that depend on the server that sent them.

use envoy_types::pb::envoy::config::cluster::v3::Cluster as ClusterMessage;
use envoy_types::pb::envoy::config::listener::v3::Listener as ListenerMessage;
use oxds_core::ads::{AdsTransmit, ClientConfig, Server, ServerId};
use oxds_core::resource::{
    Cluster, HostRewrite, Listener, LrsServer, ResourceParser, RouteConfig, RouteSource,
};
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, Node};

use super::{Played, response};
use crate::support::text;

const ROUTE: ResourceType = ResourceType::ROUTE;
const LISTENER: ResourceType = ResourceType::LISTENER;

const REWRITING: &str = "virtual_hosts { name: 'h' domains: '*' routes { match { prefix: '' }
    route { cluster: 'c' auto_host_rewrite { value: true } } } }";

fn any(resource_type: &ResourceType, text: &str) -> Any {
    Any {
        type_url: resource_type.type_url().to_owned(),
        value: text::bytes(resource_type, text),
    }
}

fn routes() -> Any {
    any(&ROUTE, &format!("name: 'r' {REWRITING}"))
}

/// A listener with its routes inside.
fn listener() -> Any {
    any(
        &LISTENER,
        &format!(
            "name: 'l' api_listener {{ api_listener {{
               [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager] {{
                 route_config {{ {REWRITING} }}
                 http_filters {{ name: 'router' typed_config {{
                   [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {{}} }} }} }} }} }}"
        ),
    )
}

/// A client of one server, which has sent this resource.
fn with_resource(is_trusted: bool, resource_type: &ResourceType, name: &str, any: Any) -> Played {
    let server = Server {
        is_trusted,
        ..Server::new("cp:18000")
    };
    let mut played = Played::of(ClientConfig::with_server(server, Node::default()));
    played.watch(resource_type, name);
    played.open();
    played.request();
    played.respond(resource_type, "1", "n1", vec![any]);
    let ack = played.request();
    assert!(ack.error_detail.is_none(), "{ack:?}");
    played
}

fn route_config(played: &Played) -> HostRewrite {
    let cached = played.client.cached(&ROUTE, "r").unwrap().held.unwrap();
    cached.resource.get::<RouteConfig>().unwrap().host_rewrite
}

fn inline_routes(played: &Played) -> HostRewrite {
    let cached = played.client.cached(&LISTENER, "l").unwrap().held.unwrap();
    let listener = cached.resource.get::<Listener>().unwrap();
    match &listener.api.as_ref().unwrap().routes {
        RouteSource::Inline(routes) => routes.host_rewrite,
        RouteSource::Rds(name) => panic!("not inline: {name}"),
    }
}

#[test]
fn c195_only_a_trusted_server_rewrites_hosts() {
    for (is_trusted, expected) in [(false, HostRewrite::Ignored), (true, HostRewrite::Allowed)] {
        let played = with_resource(is_trusted, &ROUTE, "r", routes());
        assert_eq!(route_config(&played), expected);
        let played = with_resource(is_trusted, &LISTENER, "l", listener());
        assert_eq!(inline_routes(&played), expected);
    }
}

#[test]
fn c195_trust_stays_when_a_parser_is_added() {
    let mut played = with_resource(true, &LISTENER, "l", listener());
    let added = ResourceParser::of::<ListenerMessage>();
    played.client.register(added);
    assert_eq!(inline_routes(&played), HostRewrite::Allowed);
    let cached = played.client.cached(&LISTENER, "l").unwrap().held.unwrap();
    assert!(cached.resource.get::<ListenerMessage>().is_some());
}

#[test]
fn c144_reporting_cluster_keeps_server_when_a_parser_is_added() {
    let text =
        "name: 'c' type: EDS eds_cluster_config { eds_config { ads {} } } lrs_server { self {} }";
    let any = any(&ResourceType::CLUSTER, text);
    let mut played = with_resource(false, &ResourceType::CLUSTER, "c", any);
    let added = ResourceParser::of::<ClusterMessage>();
    played.client.register(added);
    let cached = played.client.cached(&ResourceType::CLUSTER, "c");
    let cached = cached.unwrap().held.unwrap();
    let cluster = cached.resource.get::<Cluster>().unwrap();
    let server = LrsServer::Sender(ServerId::default());
    assert_eq!(cluster.lrs_server, Some(server));
}

#[test]
fn c195_trust_follows_the_server_that_sent_the_routes() {
    // given a trusted server, and a fallback that is not trusted
    let mut config = ClientConfig::new(Node::default());
    let trusted = Server {
        is_trusted: true,
        ..Server::new("first:1")
    };
    let first = config.add_server(trusted);
    let second = config.add_server(Server::new("second:1"));
    config.add_authority(vec![first, second]);
    let mut played = Played::of(config);
    played.watch(&ROUTE, "r");
    drain(&mut played);
    played.client.handle_opened(first);
    drain(&mut played);
    answer(&mut played, first, "n1");
    assert_eq!(route_config(&played), HostRewrite::Allowed);
    // when the fallback sends the same bytes
    for _ in 0..2 {
        let (now, random) = (played.now, u64::MAX / 2);
        played.client.handle_closed(now, first, "gone", random);
        drain(&mut played);
        played.now += std::time::Duration::from_secs(600);
        played.client.handle_timeout(played.now);
        drain(&mut played);
    }
    played.watch(&ROUTE, "new");
    drain(&mut played);
    played.client.handle_opened(second);
    drain(&mut played);
    played.events();
    answer(&mut played, second, "n2");
    // then its routes rewrite nothing, and watchers know it
    assert_eq!(route_config(&played), HostRewrite::Ignored);
    assert!(played.events().contains(&"r: changed".to_owned()));
}

fn answer(played: &mut Played, server: ServerId, nonce: &str) {
    let response = response(&ROUTE, "1", nonce, vec![routes()]);
    played.client.handle_response(played.now, server, response);
    drain(played);
}

/// Writes everything that is due.
fn drain(played: &mut Played) {
    while let Some((_, transmit)) = played.client.poll_transmit(played.now) {
        drop::<AdsTransmit>(transmit);
    }
}
