//! C-55, C-57 – C-59: v2 resources, read with v3 descriptors (gRFC A30).

use bytes::Bytes;
use oxds_core::resource::{
    Assignment, Cluster, Listener, ResourceParsers, RouteConfig, RouteSource, Typed,
};
use oxds_types::descriptor::v2_pool;
use oxds_types::version_map::{to_v2, v2_name};
use prost::Message;
use prost_reflect::DynamicMessage;

use crate::support::text::bytes;

/// The bytes of a resource as a control plane of v2 would write them.
fn v2_bytes<T: Typed>(text: &str) -> Bytes {
    let name = v2_name(T::resource_type().message()).expect("a kind of v2");
    let descriptor = v2_pool()
        .get_message_by_name(name)
        .expect("a message of v2");
    match DynamicMessage::parse_text_format(descriptor, text) {
        Ok(message) => message.encode_to_vec().into(),
        Err(error) => panic!("{error:?} in {text}"),
    }
}

fn read<T: Typed>(text: &str) -> T {
    T::parse(&v2_bytes::<T>(text)).unwrap_or_else(|invalid| panic!("{invalid} in {text}"))
}

fn fault<T: Typed>(text: &str) -> String {
    match T::parse(&v2_bytes::<T>(text)) {
        Ok(_) => panic!("accepted: {text}"),
        Err(invalid) => invalid.to_string(),
    }
}

/// A listener for clients with a v2 HttpConnectionManager.
fn listener(manager: &str) -> String {
    format!(
        "name: 'l' api_listener {{ api_listener {{
           [type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager]
           {{ {manager} }} }} }}"
    )
}

const RDS: &str = "rds { route_config_name: 'r' config_source { ads {} } }";

/// Given the same content in both versions; then both views are equal.
fn twins<T: Typed + PartialEq + std::fmt::Debug>(text: &str) {
    let v3 = bytes(&T::resource_type(), text);
    let expected = T::parse(&v3).unwrap_or_else(|invalid| panic!("{invalid} in {text}"));
    assert_eq!(read::<T>(text), expected);
    // The version map makes the same translation.
    let mapped = to_v2(T::resource_type().message(), &v3).unwrap();
    assert_eq!(T::parse(&mapped).unwrap(), expected);
}

#[test]
fn c57_v2_routes_equal_their_v3_twins() {
    twins::<RouteConfig>(
        r#"name: 'r'
           virtual_hosts {
             name: 'h' domains: 'a.example' domains: '*.example'
             routes {
               match {
                 prefix: '/p'
                 case_sensitive { value: false }
                 headers { name: 'exact' exact_match: 'e' }
                 headers { name: 'safe' safe_regex_match { google_re2 {} regex: 'x+' } }
                 headers { name: 'range' range_match { start: 1 end: 9 } invert_match: true }
                 headers { name: 'present' present_match: true }
                 headers { name: 'prefix' prefix_match: 'p' }
                 headers { name: 'suffix' suffix_match: 's' }
                 runtime_fraction { default_value { numerator: 5 denominator: TEN_THOUSAND } }
               }
               route {
                 weighted_clusters {
                   clusters { name: 'a' weight { value: 1 } }
                   clusters { name: 'b' weight { value: 2 } }
                   total_weight { value: 3 }
                 }
               }
             }
             routes { match { path: '/exact' } route { cluster: 'c' } }
             routes { match { safe_regex { google_re2 {} regex: '/r.*' } } redirect {} }
             routes { match { prefix: '' query_parameters { name: 'q' } } route { cluster: 'c' } }
             routes { match { prefix: '' } route { cluster_header: 'h' } }
           }"#,
    );
}

#[test]
fn c57_v2_clusters_equal_their_v3_twins() {
    twins::<Cluster>(
        "name: 'c' type: EDS
         eds_cluster_config { eds_config { ads {} } service_name: 's' }
         lb_policy: ROUND_ROBIN
         lrs_server { self {} }
         circuit_breakers {
           thresholds { priority: HIGH max_requests { value: 1 } }
           thresholds { max_requests { value: 7 } }
         }
         outlier_detection { interval { seconds: 1 } max_ejection_percent { value: 10 } }",
    );
}

#[test]
fn c57_v2_assignments_equal_their_v3_twins() {
    let endpoint = |port: u16, health: &str| {
        format!(
            "lb_endpoints {{
               endpoint {{ address {{ socket_address {{ address: '10.0.0.1' port_value: {port} }} }} }}
               health_status: {health} load_balancing_weight {{ value: 3 }} }}"
        )
    };
    let [one, other, far] = [(80, "HEALTHY"), (81, "DRAINING"), (82, "UNKNOWN")]
        .map(|(port, health)| endpoint(port, health));
    twins::<Assignment>(&format!(
        "cluster_name: 'a'
         endpoints {{ locality {{ region: 'r' zone: 'z' sub_zone: 's' }}
           load_balancing_weight {{ value: 2 }} {one} {other} }}
         endpoints {{ locality {{ region: 'q' }} priority: 1 load_balancing_weight {{ value: 1 }} {far} }}
         policy {{ drop_overloads {{ category: 'shed' drop_percentage {{ numerator: 10 }} }} }}"
    ));
}

#[test]
fn c55_c57_v2_listeners_lead_to_the_same_routes() {
    let by_name: Listener = read(&listener(RDS));
    assert_eq!(by_name.api.unwrap().routes, RouteSource::Rds("r".into()));
    let routes = "virtual_hosts { name: 'h' domains: '*' routes {
                    match { prefix: '' } route { cluster: 'c' } } }";
    let inline: Listener = read(&listener(&format!("route_config {{ {routes} }}")));
    let RouteSource::Inline(inline) = inline.api.unwrap().routes else {
        panic!("routes are inline");
    };
    let twin: RouteConfig = read(&format!("name: 'r' {routes}"));
    assert_eq!(inline.virtual_hosts, twin.virtual_hosts);
}

/// A listener has the same bytes in both versions: the type URL of its manager decides which rules apply, not that of
/// the `Any` around the listener.
#[test]
fn c55_manager_version_decides_the_rules() {
    let v2_manager = v2_bytes::<Listener>(&listener(RDS));
    let read = ResourceParsers::grpc()
        .parse(&Listener::resource_type(), &v2_manager)
        .unwrap();
    assert_eq!(&*read.get::<Listener>().unwrap().name, "l");

    let v3_manager = bytes(
        &Listener::resource_type(),
        &format!(
            "name: 'l' api_listener {{ api_listener {{
               [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager]
               {{ {RDS} }} }} }}"
        ),
    );
    let name = v2_name(Listener::resource_type().message()).unwrap();
    let descriptor = v2_pool().get_message_by_name(name).unwrap();
    let in_v2 = DynamicMessage::decode(descriptor, v3_manager).unwrap();
    assert_eq!(in_v2.unknown_fields().count(), 0);
    let invalid = Listener::parse(&in_v2.encode_to_vec()).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "l: api_listener.api_listener.http_filters: must end with a router"
    );
}

#[test]
fn c58_fields_removed_in_v3_count_as_unset() {
    let route = |matching: &str| {
        format!(
            "name: 'r' virtual_hosts {{ name: 'h' domains: '*'
               routes {{ match {{ {matching} }} route {{ cluster: 'c' }} }} }}"
        )
    };
    assert_eq!(
        fault::<RouteConfig>(&route("regex: '/.*'")),
        "r: virtual_hosts[0].routes[0].match.path_specifier: must be set to prefix, path or safe_regex"
    );
    assert_eq!(
        fault::<RouteConfig>(&route("prefix: '' headers { name: 'h' regex_match: 'x' }")),
        "r: virtual_hosts[0].routes[0].match.headers[0].header_match_specifier: must be set"
    );
    // If nothing depends on these fields, the resource is valid without them.
    let hosts = "hosts { socket_address { address: '10.0.0.1' port_value: 80 } }";
    let eds = "name: 'c' type: EDS eds_cluster_config { eds_config { ads {} } }";
    assert_eq!(
        read::<Cluster>(&format!("{eds} {hosts}")),
        read::<Cluster>(eds)
    );
}

#[test]
fn c59_v2_manager_filters_and_durations_are_ignored() {
    let unknown = "http_filters { name: 'unknown.filter' config {} }";
    let nameless = "http_filters {} http_filters {}";
    let bound = "common_http_protocol_options { max_stream_duration { seconds: 1 } }";
    let wrong = "common_http_protocol_options { max_stream_duration { seconds: -1 } }";
    let plain: Listener = read(&listener(RDS));
    for fields in ["", unknown, nameless, bound, wrong] {
        let other: Listener = read(&listener(&format!("{RDS} {fields}")));
        assert_eq!(other, plain, "{fields}");
    }
    assert_eq!(plain.api.unwrap().max_stream_duration, None);
}

#[test]
fn c59_v2_manager_per_filter_config_is_ignored() {
    let routes = |overridden: &str| {
        let text = format!(
            "route_config {{ virtual_hosts {{ name: 'h' domains: '*' {overridden}
               routes {{ match {{ prefix: '' }} route {{ cluster: 'c' }} {overridden} }} }} }}"
        );
        read::<Listener>(&listener(&text))
    };
    let overridden = "typed_per_filter_config { key: 'f' value {
        [type.googleapis.com/google.protobuf.Duration] { seconds: 1 } } }";
    assert_eq!(routes(overridden), routes(""));
}

/// Fields that v2 has too, and that no gRPC client supports, are rejected in either version.
#[test]
fn c57_shared_rules_hold_for_v2() {
    assert_eq!(
        fault::<Listener>(&listener(&format!("xff_num_trusted_hops: 1 {RDS}"))),
        "l: api_listener.api_listener.xff_num_trusted_hops: must be zero"
    );
    assert_eq!(
        fault::<Cluster>("name: 'c' type: EDS lb_policy: MAGLEV"),
        "c: lb_policy: MAGLEV is not supported, only ROUND_ROBIN, RING_HASH and LEAST_REQUEST are"
    );
}
