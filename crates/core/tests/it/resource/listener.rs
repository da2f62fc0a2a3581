//! C-170 – C-178: validation of listeners.

use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::Listener as ListenerProto;
use oxds_core::resource::{Invalid, Listener, RouteSource, Typed};
use oxds_types::ResourceType;
use prost::Message;

use crate::support::text::{accepted, bytes, rejected};

const RDS: &str = "rds { route_config_name: 'r' config_source { ads {} } }";
const ROUTER: &str = "http_filters { name: 'router' typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";
/// A filter that gRPC clients do not support.
const CORS: &str = "[type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors] {}";

/// A listener for clients, with this HttpConnectionManager.
fn listener(manager: &str) -> String {
    format!(
        "name: 'l' api_listener {{ api_listener {{
           [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager]
           {{ {manager} }} }} }}"
    )
}

/// Returns the validation error of the HttpConnectionManager.
fn fault(manager: &str) -> String {
    let error = rejected::<Listener>(&listener(manager));
    let within = "l: api_listener.api_listener.";
    error
        .strip_prefix(within)
        .unwrap_or_else(|| panic!("{error:?} does not begin with {within:?}"))
        .to_owned()
}

#[test]
fn c170_listener_needs_name_and_connection_manager() {
    assert_eq!(
        rejected::<Listener>("stat_prefix: 'x'"),
        "name: must not be empty"
    );
    assert_eq!(
        rejected::<Listener>("name: 'l'"),
        "l: api_listener: must be set"
    );
    assert_eq!(
        rejected::<Listener>("name: 'l' api_listener {}"),
        "l: api_listener.api_listener: must be set"
    );
    let other = "name: 'l' api_listener { api_listener {
        [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";
    assert_eq!(
        rejected::<Listener>(other),
        "l: api_listener.api_listener: must be an HttpConnectionManager, not \"envoy.extensions.filters.http.router.v3.Router\""
    );
}

#[test]
fn c171_rds_must_name_routes_of_the_same_server() {
    for source in ["ads {}", "self {}"] {
        let rds = format!("rds {{ route_config_name: 'r' config_source {{ {source} }} }}");
        let listener: Listener = accepted(&listener(&format!("{rds} {ROUTER}")));
        assert_eq!(
            listener.api.unwrap().routes,
            RouteSource::Rds("r".into()),
            "{source}"
        );
    }
    let elsewhere = "rds { route_config_name: 'r' config_source { path: '/f' } }";
    assert_eq!(
        fault(&format!("{elsewhere} {ROUTER}")),
        "rds.config_source: must be ads or self"
    );
    let nowhere = "rds { route_config_name: 'r' }";
    assert_eq!(
        fault(&format!("{nowhere} {ROUTER}")),
        "rds.config_source: must be ads or self"
    );
    let nameless = "rds { config_source { ads {} } }";
    assert_eq!(
        fault(&format!("{nameless} {ROUTER}")),
        "rds.route_config_name: must not be empty"
    );
}

#[test]
fn c171_inline_routes_follow_the_rules_of_rds() {
    let inline = |domain: &str| {
        format!("route_config {{ virtual_hosts {{ name: 'h' domains: '{domain}' }} }} {ROUTER}")
    };
    let listener: Listener = accepted(&listener(&inline("*")));
    let RouteSource::Inline(routes) = listener.api.unwrap().routes else {
        panic!("routes are inline");
    };
    assert_eq!(routes.virtual_hosts[0].name, "h");
    assert_eq!(
        fault(&inline("a*b")),
        "route_config.virtual_hosts[0].domains[0]: \"a*b\" must have * at its beginning or its end only"
    );
}

#[test]
fn c172_scoped_and_missing_routes_are_rejected() {
    assert_eq!(
        fault(&format!("scoped_routes {{ name: 's' }} {ROUTER}")),
        "scoped_routes: is not supported"
    );
    assert_eq!(
        fault(ROUTER),
        "route_specifier: must be rds or route_config"
    );
}

#[test]
fn c173_client_address_options_are_rejected() {
    assert_eq!(
        fault(&format!("xff_num_trusted_hops: 1 {RDS} {ROUTER}")),
        "xff_num_trusted_hops: must be zero"
    );
    let detection = "original_ip_detection_extensions { name: 'x' }";
    assert_eq!(
        fault(&format!("{detection} {RDS} {ROUTER}")),
        "original_ip_detection_extensions: must be empty"
    );
}

#[test]
fn c174_filter_names_are_unique_and_router_is_last() {
    let filters = |filters: &str| fault(&format!("{RDS} {filters}"));
    assert_eq!(filters(""), "http_filters: must end with a router");
    let optional =
        format!("http_filters {{ name: 'f' is_optional: true typed_config {{ {CORS} }} }}");
    assert_eq!(filters(&optional), "http_filters: must end with a router");
    assert_eq!(
        filters(&format!(
            "{ROUTER} {}",
            ROUTER.replace("'router'", "'again'")
        )),
        "http_filters[1]: is a second router, after http_filters[0]"
    );
    assert_eq!(
        filters(&ROUTER.replace("'router'", "''")),
        "http_filters[0]: must have a name"
    );
    assert_eq!(
        filters(&format!("{} {ROUTER}", optional.replace("'f'", "'router'"))),
        "http_filters[1]: has the name \"router\" of a filter before it"
    );
}

#[test]
fn c175_unknown_filter_must_be_optional_and_is_ignored() {
    let fault_filter = format!("http_filters {{ name: 'f' typed_config {{ {CORS} }} }}");
    assert_eq!(
        fault(&format!("{RDS} {fault_filter} {ROUTER}")),
        "http_filters[0]: \"f\" of type \"envoy.extensions.filters.http.cors.v3.Cors\" is not supported"
    );
    let optional = fault_filter.replace("'f'", "'f' is_optional: true");
    // After the router, too: an ignored filter has no position.
    for filters in [
        format!("{optional} {ROUTER}"),
        format!("{ROUTER} {optional}"),
    ] {
        accepted::<Listener>(&listener(&format!("{RDS} {filters}")));
    }
}

#[test]
fn c177_listener_max_stream_duration_is_read() {
    let bounded = |duration: &str| {
        format!(
            "common_http_protocol_options {{ max_stream_duration {{ {duration} }} }} {RDS} {ROUTER}"
        )
    };
    let limit = |duration: &str| {
        let listener: Listener = accepted(&listener(&bounded(duration)));
        listener.api.unwrap().max_stream_duration
    };
    assert_eq!(limit("seconds: 1 nanos: 5"), Some(Duration::new(1, 5)));
    assert_eq!(limit(""), Some(Duration::ZERO));
    for bad in [
        "seconds: -1",
        "nanos: -1",
        "nanos: 1000000000",
        "seconds: 315576000001",
    ] {
        assert_eq!(
            fault(&bounded(bad)),
            "common_http_protocol_options.max_stream_duration: must be a duration that is not negative"
        );
    }
}

#[test]
fn c178_socket_listener_is_valid_without_api() {
    let manager =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let socket = format!(
        "name: 'l' address {{ socket_address {{ address: '::' port_value: 80 }} }}
         default_filter_chain {{ filters {{ name: 'http' typed_config {{
           [type.googleapis.com/{manager}] {{ {RDS} {ROUTER} }} }} }} }}"
    );
    let listener = accepted::<Listener>(&socket);
    assert_eq!(listener.api, None);
    assert_eq!(listener.socket.unwrap().port, 80);
}

#[test]
fn c84_undecodable_bytes_are_rejected() {
    let Err(Invalid { name, rule, .. }) = Listener::parse(b"\xff\xff\xff") else {
        panic!("accepted");
    };
    assert_eq!(name, None);
    assert!(rule.starts_with("cannot be decoded: "), "{rule}");
}

/// gRFC A39: filters are a feature of v3, so a listener of v2 has no filter configurations (C-59).
#[test]
fn c194_filter_configurations_of_v2_listeners_are_ignored() {
    let routes = format!(
        "route_config {{ virtual_hosts {{ name: 'h' domains: '*'
           typed_per_filter_config {{ key: 'f' value {{ {CORS} }} }} }} }} {ROUTER}"
    );
    let error = fault(&routes);
    assert!(error.ends_with("is not supported"), "{error}");
    let v2 = "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";
    let v3 = bytes(&ResourceType::LISTENER, &listener(&routes));
    let mut proto = ListenerProto::decode(&*v3).unwrap();
    let manager = proto.api_listener.as_mut().unwrap();
    manager.api_listener.as_mut().unwrap().type_url = format!("type.googleapis.com/{v2}");
    Listener::parse(&proto.encode_to_vec()).unwrap();
}
