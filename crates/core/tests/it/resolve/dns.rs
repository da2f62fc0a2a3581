//! C-220, C-254: `LOGICAL_DNS` clusters.

use std::net::SocketAddr;

use oxds_core::resolve::XdsConfig;
use oxds_core::resource::DnsTarget;
use oxds_types::ResourceType;

use super::{Played, cluster, listener, routes, served_by};

fn dns_cluster(name: &str, host: &str) -> String {
    format!(
        "name: '{name}' type: LOGICAL_DNS load_assignment {{ endpoints {{ lb_endpoints {{ endpoint {{
           address {{ socket_address {{ address: '{host}' port_value: 80 }} }} }} }} }} }}"
    )
}

fn host(name: &str) -> DnsTarget {
    DnsTarget {
        host: name.into(),
        port: 80,
    }
}

fn addresses(last: &[u8]) -> Vec<SocketAddr> {
    last.iter()
        .map(|last| SocketAddr::from(([10, 0, 0, *last], 80)))
        .collect()
}

/// Routes lead to cluster `a`, whose host `h` is not looked up yet.
fn waiting() -> Played {
    let mut played = Played::new();
    played.got(&ResourceType::LISTENER, &listener("r"));
    played.commands();
    played.got(&ResourceType::ROUTE, &routes("r", "a"));
    played.commands();
    played.got(&ResourceType::CLUSTER, &dns_cluster("a", "h"));
    assert_eq!(played.commands(), ["resolve h:80"]);
    played.silent();
    played
}

/// Returns the addresses of the only endpoint of the only locality.
fn endpoint(config: &XdsConfig) -> Vec<SocketAddr> {
    let cluster = config.clusters[0].config.as_ref().unwrap();
    let assignment = cluster.leaves[0].assignment.as_ref().unwrap();
    let [level] = &assignment.priorities[..] else {
        panic!("one priority");
    };
    let [locality] = &level[..] else {
        panic!("one locality");
    };
    let [endpoint] = &locality.endpoints[..] else {
        panic!("one endpoint");
    };
    let others = endpoint.additional_addresses.iter().copied();
    std::iter::once(endpoint.address).chain(others).collect()
}

#[test]
fn c254_whole_result_is_one_endpoint_of_one_locality() {
    let mut played = waiting();
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[3, 1, 2])));
    assert_eq!(endpoint(&played.config()), addresses(&[3, 1, 2]));
    assert!(played.commands().is_empty());
}

#[test]
fn c254_another_order_of_the_same_addresses_changes_nothing() {
    let mut played = waiting();
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[1, 2])));
    played.config();
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[2, 1])));
    played.silent();
    // Addresses that stay keep their place.
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[9, 2])));
    assert_eq!(endpoint(&played.config()), addresses(&[2, 9]));
}

#[test]
fn c220_failed_lookup_fails_the_cluster_until_it_succeeds() {
    for result in [Err("no such host"), Ok(&[][..])] {
        let mut played = waiting();
        played.resolver.handle_addresses(&host("h"), result);
        let text = served_by(&played.config(), "/a");
        let problem = result.err().unwrap_or("no addresses");
        assert!(text.starts_with("a: no endpoints: "), "{text}");
        assert!(
            text.ends_with(&format!("DNS lookup of h:80: {problem}")),
            "{text}"
        );
        played
            .resolver
            .handle_addresses(&host("h"), Ok(&addresses(&[1])));
        assert_eq!(endpoint(&played.config()), addresses(&[1]));
        // Later failures keep the addresses.
        played.resolver.handle_addresses(&host("h"), Err("again"));
        played.silent();
    }
}

#[test]
fn c254_host_is_forgotten_with_its_cluster() {
    let mut played = waiting();
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[1])));
    played.config();
    played.got(&ResourceType::CLUSTER, &dns_cluster("a", "other"));
    assert_eq!(played.commands(), ["forget h:80", "resolve other:80"]);
    played.got(&ResourceType::CLUSTER, &cluster("a"));
    assert_eq!(played.commands(), ["forget other:80", "watch eds a"]);
    // A late result of a host that no cluster wants is ignored.
    played
        .resolver
        .handle_addresses(&host("h"), Ok(&addresses(&[7])));
    played.silent();
}
