//! C-259: validation of the listeners of servers, and the filter chains of their connections (gRFC A36).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use oxds_core::resource::{Cidr, FilterChains, Listener, RouteSource, SocketListener};
use proptest::prelude::*;

use crate::support::text::{accepted, rejected};

const RDS: &str = "rds { route_config_name: 'r' config_source { ads {} } }";
const ROUTER: &str = "http_filters { name: 'router' typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";
const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ADDRESS: &str = "address { socket_address { address: '::' port_value: 80 } }";

/// A network filter with this HttpConnectionManager.
fn filter(name: &str, manager: &str) -> String {
    format!("filters {{ name: '{name}' typed_config {{ [{MANAGER}] {{ {manager} }} }} }}")
}

/// A valid filter chain with this match.
fn chain(name: &str, matching: &str) -> String {
    let filter = filter("http", &format!("{RDS} {ROUTER}"));
    format!("filter_chains {{ name: '{name}' filter_chain_match {{ {matching} }} {filter} }}")
}

fn default_chain(content: &str) -> String {
    format!("default_filter_chain {{ name: 'default' {content} }}")
}

fn valid_default() -> String {
    default_chain(&filter("http", &format!("{RDS} {ROUTER}")))
}

fn listener(fields: &str) -> String {
    format!("name: 'l' {fields}")
}

fn socket(fields: &str) -> SocketListener {
    let listener: Listener = accepted(&listener(&format!("{ADDRESS} {fields}")));
    listener.socket.expect("a socket listener")
}

/// Returns the validation error of a listener with these fields beside its address.
fn fault(fields: &str) -> String {
    rejected::<Listener>(&listener(&format!("{ADDRESS} {fields}")))
}

/// Returns the name of the chain of a connection.
fn of(chains: &FilterChains, destination: &str, source: &str) -> Option<String> {
    let destination: IpAddr = destination.parse().unwrap();
    let source: SocketAddr = source.parse().unwrap();
    let index = chains.of_connection(destination, source)?;
    Some(chains.all()[index].name.to_string())
}

#[test]
fn c259_address_must_be_a_tcp_socket() {
    for (address, error) in [
        ("address {}", "l: address: must be a socket_address"),
        (
            "address { pipe { path: '/x' } }",
            "l: address: must be a socket_address",
        ),
        (
            "address { socket_address { address: '::' protocol: UDP port_value: 80 } }",
            "l: address.socket_address.protocol: must be TCP",
        ),
        (
            "address { socket_address { address: '::' port_value: 65536 } }",
            "l: address.socket_address.port_value: must be from 0 to 65535",
        ),
        (
            "address { socket_address { address: '::' named_port: 'http' } }",
            "l: address.socket_address.port_value: must be from 0 to 65535",
        ),
    ] {
        let listener = listener(&format!("{address} {}", valid_default()));
        assert_eq!(rejected::<Listener>(&listener), error);
    }
}

#[test]
fn c259_listener_is_for_its_own_address_only() {
    let socket = socket(&valid_default());
    for (listening, is_for) in [
        ("[::]:80", true),
        ("[::]:81", false),
        ("0.0.0.0:80", false),
        ("[::1]:80", false),
    ] {
        assert_eq!(
            socket.is_for(listening.parse().unwrap()),
            is_for,
            "{listening}"
        );
    }
}

#[test]
fn c259_unsupported_listener_fields_are_rejected() {
    let default = valid_default();
    assert_eq!(
        fault(&format!("listener_filters {{ name: 'tls' }} {default}")),
        "l: listener_filters: must be empty"
    );
    assert_eq!(
        fault(&format!("use_original_dst {{ value: true }} {default}")),
        "l: use_original_dst: must not be true"
    );
    socket(&format!("use_original_dst {{ value: false }} {default}"));
}

#[test]
fn c259_listener_without_usable_chain_is_rejected() {
    assert_eq!(
        fault(""),
        "l: filter_chains: must not be empty, or there must be a default_filter_chain"
    );
    for never in [
        "destination_port { value: 80 }",
        "server_names: 'a.example'",
        "transport_protocol: 'tls'",
        "application_protocols: 'h2'",
    ] {
        assert_eq!(
            fault(&chain("a", never)),
            "l: filter_chains: must have one that can match, or there must be a default_filter_chain",
            "{never}"
        );
        socket(&format!("{} {}", chain("a", never), valid_default()));
    }
}

#[test]
fn c259_chain_needs_an_http_connection_manager() {
    let default = |content: &str| fault(&default_chain(content));
    let within = "l: default_filter_chain.filters";
    let valid = format!("{RDS} {ROUTER}");
    assert_eq!(
        default(""),
        format!("{within}: must have an HttpConnectionManager")
    );
    assert_eq!(
        default("filters { name: 'x' }"),
        format!("{within}[0].typed_config: must be set")
    );
    assert_eq!(
        default(&filter("", &valid)),
        format!("{within}[0]: must have a name")
    );
    let two = [filter("a", &valid), filter("a", &valid)].concat();
    assert_eq!(
        default(&two),
        format!("{within}[1]: has the name \"a\" of a filter before it")
    );
    // Filters after the first one are ignored, and must be valid.
    let two = [filter("a", &valid), filter("b", ROUTER)].concat();
    assert_eq!(
        default(&two),
        format!("{within}[1].typed_config.route_specifier: must be rds or route_config")
    );
    let tcp = "filters { name: 't' typed_config {
        [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";
    assert_eq!(
        default(tcp),
        format!(
            "{within}[0]: \"t\" of type \"envoy.extensions.filters.http.router.v3.Router\" is not supported"
        )
    );
}

#[test]
fn c259_routes_of_chains_follow_the_rules_of_clients() {
    let inline = "route_config { virtual_hosts { name: 'h' domains: 'a*b' } }";
    let first = filter("http", &format!("{inline} {ROUTER}"));
    assert_eq!(
        fault(&format!("filter_chains {{ {first} }}")),
        "l: filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].domains[0]: \
         \"a*b\" must have * at its beginning or its end only"
    );
    let chains = socket(&chain("a", "")).chains;
    assert_eq!(chains.all()[0].routes, RouteSource::Rds("r".into()));
}

#[test]
fn c238_client_filters_of_servers_must_be_optional() {
    let fault_filter = "typed_config {
        [type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault] {} }";
    let filters = |optional: &str| {
        let filters = format!("http_filters {{ name: 'f' {optional} {fault_filter} }} {ROUTER}");
        default_chain(&filter("http", &format!("{RDS} {filters}")))
    };
    assert_eq!(
        fault(&filters("")),
        "l: default_filter_chain.filters[0].typed_config.http_filters[0]: \"f\" of type \
         \"envoy.extensions.filters.http.fault.v3.HTTPFault\" is not supported"
    );
    let chains = socket(&filters("is_optional: true")).chains;
    assert_eq!(chains.all()[0].filters, []);
}

#[test]
fn c259_malformed_matches_are_rejected() {
    for (matching, error) in [
        (
            "prefix_ranges { address_prefix: 'a' }",
            "prefix_ranges[0].address_prefix: \"a\" must be an IP address",
        ),
        (
            "source_prefix_ranges { address_prefix: '' }",
            "source_prefix_ranges[0].address_prefix: \"\" must be an IP address",
        ),
        (
            "source_ports: [1, 0]",
            "source_ports[1]: must be from 1 to 65535",
        ),
        (
            "source_ports: 65536",
            "source_ports[0]: must be from 1 to 65535",
        ),
        ("source_type: 7", "source_type: is unknown"),
    ] {
        assert_eq!(
            fault(&chain("a", matching)),
            format!("l: filter_chains[0].filter_chain_match.{error}")
        );
    }
}

#[test]
fn c259_duplicate_matches_are_rejected() {
    let ten = "prefix_ranges { address_prefix: '10.0.0.0' prefix_len { value: 8 } }";
    let same = "prefix_ranges { address_prefix: '10.9.9.9' prefix_len { value: 8 } }";
    let more = "prefix_ranges { address_prefix: '11.0.0.0' prefix_len { value: 8 } }";
    let long = "prefix_ranges { address_prefix: '10.0.0.0' prefix_len { value: 32 } }";
    let longer = "prefix_ranges { address_prefix: '10.0.0.0' prefix_len { value: 99 } }";
    let none = "prefix_ranges { address_prefix: '0.0.0.0' prefix_len { value: 0 } }";
    let absent = "prefix_ranges { address_prefix: '0.0.0.0' }";
    let duplicate = "l: filter_chains[1].filter_chain_match: must not match the same as \
                     filter_chains[0] (chains \"b\" and \"a\")";
    for (first, second) in [
        ("", ""),
        (ten, same),
        (ten, &[more, same].concat()),
        (long, longer),
        (none, absent),
        ("source_ports: [1, 2]", "source_ports: [3, 2]"),
        // Rules that never match count, too.
        ("server_names: ['a', 'b']", "server_names: 'b'"),
        (
            "destination_port { value: 1 }",
            "destination_port { value: 1 }",
        ),
        ("application_protocols: 'h2'", "application_protocols: 'h2'"),
    ] {
        let chains = [chain("a", first), chain("b", second)].concat();
        assert_eq!(fault(&chains), duplicate, "{first} {second}");
    }
    assert_eq!(
        fault(&[chain("", ""), chain("", "")].concat()),
        "l: filter_chains[1].filter_chain_match: must not match the same as filter_chains[0]"
    );
    assert_eq!(
        fault(&chain("a", "source_ports: [7, 7]")),
        "l: filter_chains[0].filter_chain_match: must not repeat a combination of its values"
    );
    // An address of any length is not the absence of a range.
    socket(&[chain("a", none), chain("b", "")].concat());
    socket(
        &[
            chain("a", "transport_protocol: 'raw_buffer'"),
            chain("b", ""),
        ]
        .concat(),
    );
}

#[test]
fn c259_most_specific_chain_matches() {
    let range = |field: &str, address: &str, length: u8| {
        format!("{field} {{ address_prefix: '{address}' prefix_len {{ value: {length} }} }}")
    };
    let to = |address: &str, length| range("prefix_ranges", address, length);
    let from = |address: &str, length| range("source_prefix_ranges", address, length);
    let all = [
        chain("any", ""),
        chain("v4", &to("0.0.0.0", 0)),
        chain("ten", &to("10.0.0.0", 8)),
        chain("ten one", &to("10.1.0.0", 16)),
        chain(
            "local",
            &format!("{} source_type: SAME_IP_OR_LOOPBACK", to("10.1.0.0", 16)),
        ),
        chain(
            "from",
            &format!("{} {}", to("10.0.0.0", 8), from("192.168.0.0", 16)),
        ),
        chain(
            "port",
            &format!(
                "{} {} source_ports: 7",
                to("10.0.0.0", 8),
                from("192.168.0.0", 16)
            ),
        ),
        chain("external v6", "source_type: EXTERNAL"),
    ];
    let chains = socket(&all.concat()).chains;
    for (destination, source, name) in [
        ("::1", "[::1]:9", "any"),
        ("2001::1", "[2001::2]:9", "external v6"),
        ("11.1.1.1", "12.1.1.1:9", "v4"),
        ("10.2.1.1", "12.1.1.1:9", "ten"),
        ("::ffff:10.2.1.1", "[::ffff:12.1.1.1]:9", "ten"),
        ("10.1.1.1", "12.1.1.1:9", "ten one"),
        ("10.1.1.1", "10.1.1.1:9", "local"),
        ("10.1.1.1", "127.0.0.1:9", "local"),
        ("10.2.1.1", "192.168.3.4:9", "from"),
        ("10.2.1.1", "192.168.3.4:7", "port"),
        // No way back: the longest destination decides, although a source matches the shorter one.
        ("10.1.1.1", "192.168.3.4:7", "ten one"),
    ] {
        let found = of(&chains, destination, source);
        assert_eq!(found.as_deref(), Some(name), "{source} to {destination}");
    }
}

#[test]
fn c259_default_chain_is_for_the_rest() {
    let ten =
        "prefix_ranges { address_prefix: '10.0.0.0' prefix_len { value: 8 } } source_ports: 7";
    let with = socket(&format!("{} {}", chain("ten", ten), valid_default())).chains;
    let without = socket(&chain("ten", ten)).chains;
    for (destination, source, name) in [
        ("10.0.0.1", "1.1.1.1:7", Some("ten")),
        ("10.0.0.1", "1.1.1.1:8", None),
        ("11.0.0.1", "1.1.1.1:7", None),
    ] {
        assert_eq!(of(&without, destination, source).as_deref(), name);
        let name = name.or(Some("default"));
        assert_eq!(of(&with, destination, source).as_deref(), name);
    }
}

#[test]
fn c259_raw_buffer_is_more_specific_than_no_protocol() {
    let source = "source_prefix_ranges { address_prefix: '1.0.0.0' prefix_len { value: 8 } }";
    let all = [
        chain("plain", source),
        chain("raw", "transport_protocol: 'raw_buffer'"),
        chain("tls", "transport_protocol: 'tls'"),
    ];
    let chains = socket(&all.concat()).chains;
    let found = of(&chains, "10.0.0.1", "1.1.1.1:7");
    assert_eq!(found.as_deref(), Some("raw"));
}

/// 10,000 chains with overlapping ranges: reading is linear, a look-up takes one step per length.
#[test]
fn c259_ten_thousand_overlapping_chains_are_bounded() {
    let matching = |index: usize| {
        let (high, low) = (index / 256, index % 256);
        let length = [8, 16, 24, 32][index % 4];
        let destination = match index % 4 {
            0 => format!("{}.0.0.0", 1 + index / 4 % 200),
            1 => format!("10.{}.0.0", index / 4 % 256),
            2 => format!("10.{high}.{low}.0"),
            _ => format!("10.{high}.{low}.1"),
        };
        format!(
            "prefix_ranges {{ address_prefix: '{destination}' prefix_len {{ value: {length} }} }}
             source_ports: {}",
            index + 1
        )
    };
    let all: String = (0..10_000)
        .map(|index| chain(&index.to_string(), &matching(index)))
        .collect();
    let chains = socket(&all).chains;
    assert_eq!(chains.all().len(), 10_000);
    let to: IpAddr = "10.39.15.1".parse().unwrap();
    let info = allocation_counter::measure(|| {
        for port in 1..1_000 {
            let _ = chains.of_connection(to, SocketAddr::new(to, port));
        }
    });
    assert_eq!(info.count_total, 0);
    assert_eq!(
        of(&chains, "10.39.15.1", &format!("9.9.9.9:{}", 9_999 + 1)).as_deref(),
        Some("9999")
    );
}

#[test]
fn c259_products_of_lists_are_bounded() {
    let ports = |count: u16| {
        let ports = (1..=count).map(|port| port.to_string());
        format!("source_ports: [{}]", ports.collect::<Vec<_>>().join(", "))
    };
    let ranges = |field: &str, count: u8| -> String {
        let range = |index| {
            format!("{field} {{ address_prefix: '10.{index}.0.0' prefix_len {{ value: 16 }} }}")
        };
        (0..count).map(range).collect()
    };
    let product = |count| {
        let (to, from) = (
            ranges("prefix_ranges", count),
            ranges("source_prefix_ranges", count),
        );
        chain("a", &format!("{to} {from} {}", ports(100)))
    };
    assert_eq!(socket(&product(50)).chains.all().len(), 1);
    assert_eq!(
        fault(&product(200)),
        "l: filter_chains: must have at most 262144 combinations of matching rules"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The table finds what a walk over all chains finds, whose longest range wins.
    #[test]
    fn c259_table_finds_what_a_walk_finds(
        ranges in proptest::collection::btree_set((0_u8..4, 0_u8..4, 0_u8..=24), 1..12),
        destinations in proptest::collection::vec((0_u8..4, 0_u8..4), 16),
    ) {
        let cidr = |&(a, b, length): &(u8, u8, u8)| Cidr::new([a * 64, b * 64, 0, 0].into(), length).unwrap();
        let ranges: BTreeSet<Cidr> = ranges.iter().map(cidr).collect();
        let text: String = ranges.iter().enumerate().map(|(index, range)| {
            let (network, length) = (range.network(), range.length());
            chain(&index.to_string(), &format!("prefix_ranges {{ address_prefix: '{network}' prefix_len {{ value: {length} }} }}"))
        }).collect();
        let chains = socket(&text).chains;
        for (a, b) in destinations {
            let destination = IpAddr::from([a * 64, b * 64, 1, 1]);
            let matching = ranges.iter().enumerate().filter(|(_, range)| range.contains(destination));
            let expected = matching.max_by_key(|(_, range)| range.length()).map(|(index, _)| index);
            prop_assert_eq!(chains.of_connection(destination, "9.9.9.9:9".parse().unwrap()), expected);
        }
    }
}
