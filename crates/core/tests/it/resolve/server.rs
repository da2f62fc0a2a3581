//! C-259: the resolver of a server, against a client that the test plays (gRFC A36).

use std::sync::Arc;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::resolve::{ChainRoutes, NoRoute, ServerConfig, ServerResolver};
use oxds_types::ResourceType;

use super::{NoHeaders, ROUTER, parsed, words};

const LISTENER: ResourceType = ResourceType::LISTENER;
const ROUTE: ResourceType = ResourceType::ROUTE;
const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// The resolver of listener `l` for a server at `[::1]:80`.
struct Played(ServerResolver);

impl Played {
    fn new() -> Self {
        Self(ServerResolver::new("l", "[::1]:80".parse().unwrap()))
    }

    /// In use: a listener with one chain, whose routes are the resource `r`.
    fn serving() -> (Self, Arc<ServerConfig>) {
        let mut played = Self::new();
        played.got(&LISTENER, &listener(&[rds("r")]));
        played.commands();
        played.got(&ROUTE, &routes("r", ""));
        let config = played.config();
        (played, config)
    }

    fn got(&mut self, resource_type: &ResourceType, text: &str) {
        let (name, resource) = parsed(resource_type, text);
        self.0.handle_resource(resource_type, &name, &Ok(resource));
    }

    fn failed(&mut self, resource_type: &ResourceType, name: &str, reason: WatchErrorReason) {
        let error = Err(WatchError::new(reason, "why"));
        self.0.handle_resource(resource_type, name, &error);
    }

    fn commands(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.poll_command())
            .map(words)
            .collect()
    }

    #[track_caller]
    fn config(&mut self) -> Arc<ServerConfig> {
        match self.0.poll_config() {
            Some(Ok(config)) => config,
            other => panic!("no configuration: {other:?}"),
        }
    }

    #[track_caller]
    fn error(&mut self) -> String {
        match self.0.poll_config() {
            Some(Err(error)) => error.to_string(),
            other => panic!("no error: {other:?}"),
        }
    }

    #[track_caller]
    fn silent(&mut self) {
        let announced = self.0.poll_config();
        assert!(announced.is_none(), "announced {announced:?}");
    }
}

/// Listener `l` at a port of `::1`. The chains match by source port, from 1.
fn listener_at(port: u16, managers: &[String]) -> String {
    let chain = |(index, manager)| {
        format!(
            "filter_chains {{ filter_chain_match {{ source_ports: {} }}
               filters {{ name: 'http' typed_config {{ [{MANAGER}] {{ {manager} {ROUTER} }} }} }} }}",
            index + 1
        )
    };
    let chains: String = managers.iter().enumerate().map(chain).collect();
    format!(
        "name: 'l' address {{ socket_address {{ address: '::1' port_value: {port} }} }} {chains}"
    )
}

pub(super) fn listener(managers: &[String]) -> String {
    listener_at(80, managers)
}

pub(super) fn rds(name: &str) -> String {
    format!("rds {{ route_config_name: '{name}' config_source {{ ads {{}} }} }}")
}

/// Routes that accept all paths with this prefix.
fn routes(name: &str, prefix: &str) -> String {
    format!(
        "name: '{name}' virtual_hosts {{ name: 'h' domains: '*'
           routes {{ match {{ prefix: '{prefix}' }} non_forwarding_action {{}} }} }}"
    )
}

fn accepts(routes: &ChainRoutes, path: &str) -> bool {
    let routes = routes.as_ref().expect("routes");
    routes.route("a", path, &NoHeaders, || 0).is_ok()
}

#[test]
fn c259_server_waits_for_listener_and_all_routes() {
    let mut played = Played::new();
    assert_eq!(played.commands(), ["watch lds l"]);
    played.silent();
    played.got(&LISTENER, &listener(&[rds("r"), rds("s"), rds("r")]));
    played.silent();
    assert_eq!(played.commands(), ["watch rds r", "watch rds s"]);
    played.got(&ROUTE, &routes("r", "/r"));
    played.silent();
    played.got(&ROUTE, &routes("s", "/s"));
    let config = played.config();
    assert_eq!(config.generation, 1);
    for (chain, path) in [(0, "/r"), (1, "/s"), (2, "/r")] {
        assert!(accepts(&config.routes[chain], path));
        assert!(!accepts(&config.routes[chain], "/other"));
    }
    played.silent();
}

#[test]
fn c259_inline_routes_need_no_answer() {
    let mut played = Played::new();
    let inline = format!("route_config {{ {} }}", routes("", "/i"));
    played.got(&LISTENER, &listener(&[inline]));
    assert!(accepts(&played.config().routes[0], "/i"));
    assert_eq!(played.commands(), ["watch lds l"]);
}

#[test]
fn c259_missing_routes_fail_their_chain_only() {
    let mut played = Played::new();
    played.got(&LISTENER, &listener(&[rds("r"), rds("s")]));
    played.commands();
    played.got(&ROUTE, &routes("r", ""));
    played.failed(&ROUTE, "s", WatchErrorReason::DoesNotExist);
    let config = played.config();
    assert!(accepts(&config.routes[0], "/x"));
    assert_eq!(config.routes[1].as_ref().unwrap_err().to_string(), "why");
    // The routes come later: the same listener, whose other routes stay.
    played.got(&ROUTE, &routes("s", "/s"));
    let next = played.config();
    assert_eq!(next.generation, config.generation);
    assert!(accepts(&next.routes[1], "/s"));
    let (Ok(before), Ok(after)) = (&config.routes[0], &next.routes[0]) else {
        panic!("no routes");
    };
    assert!(Arc::ptr_eq(before, after));
}

#[test]
fn c259_route_update_keeps_the_generation() {
    let (mut played, before) = Played::serving();
    played.got(&ROUTE, &routes("r", "/new"));
    let after = played.config();
    assert_eq!(after.generation, before.generation);
    assert!(!accepts(&after.routes[0], "/old"));
    assert!(accepts(&before.routes[0], "/old"));
}

#[test]
fn c259_next_listener_waits_for_its_routes() {
    let (mut played, before) = Played::serving();
    played.commands();
    played.got(&LISTENER, &listener(&[rds("r"), rds("s")]));
    played.silent();
    assert_eq!(played.commands(), ["watch rds s"]);
    // The listener in use still follows its routes.
    played.got(&ROUTE, &routes("r", "/new"));
    let in_use = played.config();
    assert_eq!(in_use.generation, before.generation);
    assert!(accepts(&in_use.routes[0], "/new"));
    played.got(&ROUTE, &routes("s", ""));
    let after = played.config();
    assert_eq!((after.generation, after.routes.len()), (2, 2));
    // Routes that only the old listener had are unwatched.
    played.got(&LISTENER, &listener(&[rds("s")]));
    assert_eq!(played.config().generation, 3);
    assert_eq!(played.commands(), ["unwatch rds r"]);
}

#[test]
fn c259_listener_for_another_address_does_not_serve() {
    let mut played = Played::new();
    played.got(&LISTENER, &listener_at(81, &[rds("r")]));
    assert_eq!(
        played.error(),
        "envoy.config.listener.v3.Listener \"l\" is for address \"::1\" and port 81: expected [::1]:80"
    );
    assert_eq!(played.commands(), ["watch lds l"]);
    let client = format!(
        "name: 'l' api_listener {{ api_listener {{ [{MANAGER}] {{ {} {ROUTER} }} }} }}",
        rds("r")
    );
    played.got(&LISTENER, &client);
    assert_eq!(
        played.error(),
        "envoy.config.listener.v3.Listener \"l\" is an API listener: expected filter chains and an address"
    );
}

#[test]
fn c259_deleted_listener_stops_serving_until_it_is_back() {
    let (mut played, _) = Played::serving();
    played.commands();
    played.failed(&LISTENER, "l", WatchErrorReason::DoesNotExist);
    assert_eq!(played.error(), "why");
    assert_eq!(played.commands(), ["unwatch rds r"]);
    played.failed(&LISTENER, "l", WatchErrorReason::DoesNotExist);
    played.silent();
    played.got(&LISTENER, &listener(&[rds("r")]));
    played.commands();
    played.silent();
    played.got(&ROUTE, &routes("r", ""));
    assert_eq!(played.config().generation, 2);
}

#[test]
fn c259_unreachable_control_plane_changes_nothing() {
    let mut played = Played::new();
    played.failed(&LISTENER, "l", WatchErrorReason::Unreachable);
    assert_eq!(played.error(), "why");

    let (mut played, _) = Played::serving();
    played.failed(&LISTENER, "l", WatchErrorReason::Unreachable);
    played.failed(&ROUTE, "r", WatchErrorReason::Unreachable);
    played.silent();
    // A next listener waits for the routes of the reachable control plane.
    played.got(&LISTENER, &listener(&[rds("s")]));
    played.commands();
    played.failed(&ROUTE, "s", WatchErrorReason::Unreachable);
    played.silent();
    played.got(&ROUTE, &routes("s", ""));
    assert_eq!(played.config().generation, 2);
}

#[test]
fn c259_unreachable_before_the_first_routes_fails_the_chain() {
    let mut played = Played::new();
    played.got(&LISTENER, &listener(&[rds("r")]));
    played.commands();
    played.failed(&ROUTE, "r", WatchErrorReason::Unreachable);
    let config = played.config();
    assert_eq!(config.routes[0].as_ref().unwrap_err().to_string(), "why");
}

#[test]
fn c259_withdrawn_next_listener_is_forgotten() {
    let (mut played, _) = Played::serving();
    played.commands();
    let (_, first) = parsed(&LISTENER, &listener(&[rds("r")]));
    played.0.handle_resource(&LISTENER, "l", &Ok(first.clone()));
    assert_eq!(played.config().generation, 2);
    played.got(&LISTENER, &listener(&[rds("s")]));
    assert_eq!(played.commands(), ["watch rds s"]);
    played.0.handle_resource(&LISTENER, "l", &Ok(first));
    assert_eq!(played.commands(), ["unwatch rds s"]);
    played.silent();
}

#[test]
fn c259_rpc_without_route_has_a_reason() {
    let mut played = Played::new();
    let routes = "route_config { virtual_hosts { name: 'a' domains: ['a.example', '*.a.example']
           routes { match { path: '/ok' } non_forwarding_action {} }
           routes { match { path: '/forward' } route { cluster: 'c' } }
           routes { match { path: '/direct' } direct_response { status: 200 } } }
         virtual_hosts { name: 'b' domains: ['b*', 'x.a.example']
           routes { match { prefix: '/b' } non_forwarding_action {} } } }";
    played.got(&LISTENER, &listener(&[routes.to_owned()]));
    let config = played.config();
    let routes = config.routes[0].as_ref().unwrap();
    let route = |authority: &str, path: &str| {
        let found = routes.route(authority, path, &NoHeaders, || 0);
        found.map(<[_]>::len)
    };
    assert_eq!(route("a.example", "/ok"), Ok(0));
    assert_eq!(route("A.Example", "/ok"), Ok(0));
    assert_eq!(route("y.a.example", "/ok"), Ok(0));
    assert_eq!(route("x.a.example", "/ok"), Err(NoRoute::Route));
    assert_eq!(route("x.a.example", "/b"), Ok(0));
    assert_eq!(route("b.example", "/b"), Ok(0));
    assert_eq!(route("a.example", "/forward"), Err(NoRoute::Action));
    assert_eq!(route("a.example", "/direct"), Err(NoRoute::Action));
    assert_eq!(route("a.example", "/other"), Err(NoRoute::Route));
    assert_eq!(route("c.example", "/ok"), Err(NoRoute::VirtualHost));
    let info = allocation_counter::measure(|| {
        let _ = route("y.a.example", "/ok");
    });
    assert_eq!(info.count_total, 0);
}

/// given 1,000 chains with the same routes, which override HTTP filters / then chains with equal filters share all
/// their routes.
#[test]
fn c259_chains_with_equal_filters_share_their_routes() {
    let rbac = |name: &str| {
        format!(
            "http_filters {{ name: '{name}' typed_config {{ [type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC] {{
               rules {{ action: DENY policies {{ key: 'p' value {{ permissions {{ any: true }} principals {{ any: true }} }} }} }} }} }} }}"
        )
    };
    let manager = |index: usize| format!("{} {}", rds("r"), rbac(["a", "b"][index % 2]));
    let managers: Vec<_> = (0..1_000).map(manager).collect();
    let mut played = Played::new();
    played.got(&LISTENER, &listener(&managers));
    played.commands();
    let off = "typed_per_filter_config { key: 'a' value {
        [type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute] {} } }";
    let routes = routes("r", "").replace(" routes {", &format!(" {off} routes {{"));
    played.got(&ROUTE, &routes);
    let config = played.config();
    let of = |index: usize| config.routes[index].as_ref().unwrap();
    for index in 2..1_000 {
        assert!(Arc::ptr_eq(of(index), of(index % 2)), "{index}");
    }
    let filters = |index| of(index).route("a", "/", &NoHeaders, || 0).unwrap().len();
    assert_eq!((filters(0), filters(1)), (0, 1), "the override is for a");
}
