//! C-207 – C-216: validation of assignments.

use oxds_core::lb::{EndpointHealth, PerMillion};
use oxds_core::resource::Assignment;

use crate::support::text::{accepted, rejected};

/// An assignment with these localities.
fn of(localities: &[String]) -> String {
    format!("cluster_name: 'a' {}", localities.join(" "))
}

/// A locality `region`, with these fields.
fn locality(region: &str, fields: &str) -> String {
    format!("endpoints {{ locality {{ region: '{region}' }} {fields} }}")
}

fn weight(weight: u32) -> String {
    format!("load_balancing_weight {{ value: {weight} }}")
}

fn endpoint(address: &str, fields: &str) -> String {
    format!(
        "lb_endpoints {{ endpoint {{ address {{ socket_address {{ address: '{address}' port_value: 80 }} }} }} {fields} }}"
    )
}

/// Returns the validation error of an assignment with these localities.
fn fault(localities: &[String]) -> String {
    let error = rejected::<Assignment>(&of(localities));
    let rule = error.strip_prefix("a: ");
    rule.expect("the assignment is named").to_owned()
}

/// The addresses in use, by priority and locality.
fn addresses(assignment: &Assignment) -> Vec<Vec<(String, Vec<String>)>> {
    let of_locality = |locality: &oxds_core::resource::Locality| {
        let endpoints = locality.endpoints.iter();
        let addresses = endpoints.map(|endpoint| endpoint.address.to_string());
        (locality.id.to_string(), addresses.collect())
    };
    let of_priority = |localities: &Vec<_>| localities.iter().map(of_locality).collect();
    assignment.priorities.iter().map(of_priority).collect()
}

#[test]
fn c207_assignment_and_localities_need_names() {
    assert_eq!(
        rejected::<Assignment>(""),
        "cluster_name: must not be empty"
    );
    assert_eq!(
        fault(&["endpoints { load_balancing_weight { value: 1 } }".to_owned()]),
        "endpoints[0].locality: must be set"
    );
}

#[test]
fn c207_locality_without_weight_is_ignored() {
    let assignment: Assignment = accepted(&of(&[
        locality("none", &endpoint("10.0.0.1", "")),
        locality(
            "zero",
            &format!("{} {}", weight(0), endpoint("10.0.0.2", "")),
        ),
        locality(
            "some",
            &format!("{} {}", weight(3), endpoint("10.0.0.3", "")),
        ),
    ]));
    assert_eq!(
        addresses(&assignment),
        [[("some".to_owned(), vec!["10.0.0.3:80".to_owned()])]]
    );
    assert_eq!(assignment.priorities[0][0].weight, 3);
}

#[test]
fn c208_weight_sum_of_a_priority_fits_32_bits() {
    let heavy = |region: &str, priority: u32| {
        locality(region, &format!("priority: {priority} {}", weight(1 << 31)))
    };
    // The sum is per priority, not over all of them.
    accepted::<Assignment>(&of(&[heavy("a", 0), heavy("b", 1)]));
    assert_eq!(
        fault(&[heavy("a", 0), heavy("b", 0)]),
        "endpoints: of priority 0 must have weights whose sum fits in 32 bits"
    );
}

#[test]
fn c209_localities_are_unique_and_priorities_have_no_gaps() {
    let at = |region: &str, priority: u32| {
        locality(region, &format!("priority: {priority} {}", weight(1)))
    };
    let assignment: Assignment = accepted(&of(&[at("a", 1), at("b", 0), at("a", 0)]));
    assert_eq!(
        addresses(&assignment),
        [
            vec![("b".to_owned(), vec![]), ("a".to_owned(), vec![])],
            vec![("a".to_owned(), vec![])]
        ]
    );
    assert_eq!(
        fault(&[at("a", 0), at("a", 0)]),
        "endpoints[1]: has the locality a twice in priority 0"
    );
    assert_eq!(
        fault(&[at("a", 0), at("b", 2)]),
        "endpoints: must have no gaps between priorities: found 2, expected 1"
    );
    assert_eq!(
        fault(&[at("a", 1)]),
        "endpoints: must have no gaps between priorities: found 1, expected 0"
    );
}

#[test]
fn c210_endpoint_weight_is_positive_and_defaults_to_one() {
    let place = |fields: &str| locality("a", &format!("{} {fields}", weight(1)));
    let assignment: Assignment = accepted(&of(&[place(&format!(
        "{} {}",
        endpoint("10.0.0.1", ""),
        endpoint("10.0.0.2", &weight(9))
    ))]));
    let weights: Vec<u32> = assignment
        .endpoints()
        .map(|endpoint| endpoint.weight)
        .collect();
    assert_eq!(weights, [1, 9]);
    assert_eq!(
        fault(&[place(&endpoint("10.0.0.1", &weight(0)))]),
        "endpoints[0].lb_endpoints[0].load_balancing_weight: must not be zero"
    );
    let heavy = |address: &str| endpoint(address, &weight(u32::MAX));
    assert_eq!(
        fault(&[place(&format!(
            "{} {}",
            heavy("10.0.0.1"),
            heavy("10.0.0.2")
        ))]),
        "endpoints[0].lb_endpoints: must have weights whose sum fits in 32 bits"
    );
}

#[test]
fn c211_address_is_an_ip_address_and_a_port() {
    let at = |endpoint: &str| {
        [locality(
            "a",
            &format!("{} lb_endpoints {{ endpoint {{ {endpoint} }} }}", weight(1)),
        )]
    };
    let within = "endpoints[0].lb_endpoints[0].endpoint.";
    for (text, error) in [
        (
            "address { socket_address { address: 'host' port_value: 1 } }",
            "address.socket_address.address: must be an IP address, not \"host\"",
        ),
        (
            "address { socket_address { address: '::1' port_value: 65536 } }",
            "address.socket_address.port_value: must be below 65536",
        ),
        (
            "address { pipe { path: '/p' } }",
            "address.socket_address: must be set",
        ),
        ("", "address.socket_address: must be set"),
        (
            "address { socket_address { address: '::1' named_port: 'http' } }",
            "address.socket_address.named_port: is not supported: expected port_value",
        ),
        (
            "address { socket_address { address: '::1' } }",
            "address.socket_address.port_value: must be set",
        ),
        (
            "address { socket_address { address: '10.0.0.1%1' port_value: 1 } }",
            "address.socket_address.address: must be an IP address, not \"10.0.0.1%1\"",
        ),
        (
            "address { socket_address { address: 'fe80::1%' port_value: 1 } }",
            "address.socket_address.address: must be an IP address, not \"fe80::1%\"",
        ),
        (
            "address { socket_address { address: '::1' port_value: 1 } }
             additional_addresses { address { pipe { path: '/p' } } }",
            "additional_addresses[0].address.socket_address: must be set",
        ),
    ] {
        assert_eq!(fault(&at(text)), format!("{within}{error}"));
    }
    let v6 = "address { socket_address { address: '::1' port_value: 65535 } }
        additional_addresses { address { socket_address { address: '10.0.0.1' port_value: 1 } } }";
    let assignment: Assignment = accepted(&of(&at(v6)));
    assert_eq!(
        assignment.priorities[0][0].endpoints[0].address.to_string(),
        "[::1]:65535"
    );
}

#[test]
fn c212_address_is_unique_in_the_cluster() {
    let at = |region: &str, priority: u32| {
        let fields = format!(
            "priority: {priority} {} {}",
            weight(1),
            endpoint("10.0.0.1", "")
        );
        locality(region, &fields)
    };
    assert_eq!(
        fault(&[at("a", 0), at("b", 1)]),
        "endpoints[1].lb_endpoints[0]: has the address 10.0.0.1:80 of another endpoint"
    );
    // D5: the additional addresses of an endpoint count, too.
    let additional = |first: &str, additional: &str| {
        format!(
            "lb_endpoints {{ endpoint {{
               address {{ socket_address {{ address: '{first}' port_value: 80 }} }}
               additional_addresses {{ address {{
                 socket_address {{ address: '{additional}' port_value: 80 }} }} }} }} }}"
        )
    };
    for (one, other) in [
        (endpoint("10.0.0.1", ""), additional("10.0.0.2", "10.0.0.1")),
        (additional("10.0.0.2", "10.0.0.1"), endpoint("10.0.0.1", "")),
        (String::new(), additional("10.0.0.1", "10.0.0.1")),
    ] {
        let error = fault(&[locality("a", &format!("{} {one} {other}", weight(1)))]);
        assert!(
            error.ends_with("has the address 10.0.0.1:80 of another endpoint"),
            "{error}"
        );
    }
}

/// RFC 4007: an IPv6 address may have a zone. Only the index of an interface is known without asking the system.
#[test]
fn ipv6_address_may_have_a_zone() {
    let endpoints = ["fe80::1%2", "fe80::1%3", "fe80::1%eth0", "fe80::1%eth1"]
        .map(|address| endpoint(address, ""))
        .join(" ");
    let assignment: Assignment =
        accepted(&of(&[locality("a", &format!("{} {endpoints}", weight(1)))]));
    let addresses = assignment.endpoints().map(|e| e.address.to_string());
    assert_eq!(
        addresses.collect::<Vec<_>>(),
        [
            "[fe80::1%2]:80",
            "[fe80::1%3]:80",
            "[fe80::1]:80",
            "[fe80::1]:80"
        ]
    );
}

#[test]
fn c213_unhealthy_endpoints_are_ignored() {
    let states = [
        "UNKNOWN",
        "HEALTHY",
        "UNHEALTHY",
        "DRAINING",
        "TIMEOUT",
        "DEGRADED",
    ];
    let endpoints: String = (1..)
        .zip(states)
        .map(|(last, state)| {
            endpoint(
                &format!("10.0.0.{last}"),
                &format!("health_status: {state}"),
            )
        })
        .collect();
    let assignment: Assignment =
        accepted(&of(&[locality("a", &format!("{} {endpoints}", weight(1)))]));
    let used: Vec<String> = assignment
        .endpoints()
        .map(|e| e.address.to_string())
        .collect();
    assert_eq!(used, ["10.0.0.1:80", "10.0.0.2:80"]);
    // gRFC A55: sessions use draining ones.
    let draining = &assignment.priorities[0][0].draining;
    assert_eq!(draining.len(), 1);
    assert_eq!(draining[0].address.to_string(), "10.0.0.4:80");
    assert_eq!(draining[0].health, EndpointHealth::Draining);
}

#[test]
fn c214_drops_keep_order_and_are_capped_at_100_percent() {
    let drops = "policy {
        drop_overloads { category: 'z' drop_percentage { numerator: 5 } }
        drop_overloads { category: 'a' drop_percentage { numerator: 5 denominator: TEN_THOUSAND } }
        drop_overloads { category: 'm' drop_percentage { numerator: 5 denominator: MILLION } }
        drop_overloads { category: 'all' drop_percentage { numerator: 4000000000 } }
        drop_overloads { category: 'none' } }";
    let assignment: Assignment = accepted(&format!("cluster_name: 'a' {drops}"));
    let shares: Vec<_> = assignment
        .drops
        .iter()
        .map(|drop| (&*drop.category, drop.share.get()))
        .collect();
    assert_eq!(
        shares,
        [
            ("z", 50_000),
            ("a", 500),
            ("m", 5),
            ("all", PerMillion::ALL.get()),
            ("none", 0)
        ]
    );
}

#[test]
fn c214_drop_needs_category_and_known_denominator() {
    let fault = |drop: &str| {
        rejected::<Assignment>(&format!(
            "cluster_name: 'a' policy {{ drop_overloads {{ {drop} }} }}"
        ))
    };
    assert_eq!(
        fault("drop_percentage { numerator: 5 }"),
        "a: policy.drop_overloads[0].category: must not be empty"
    );
    assert_eq!(
        fault("category: 'c' drop_percentage { denominator: 7 }"),
        "a: policy.drop_overloads[0].drop_percentage.denominator: is unknown"
    );
}

#[test]
fn c215_overprovisioning_and_staleness_are_ignored() {
    let policy =
        "policy { overprovisioning_factor { value: 100 } endpoint_stale_after { seconds: -7 } }";
    accepted::<Assignment>(&format!("cluster_name: 'a' {policy}"));
}

#[test]
fn c216_empty_assignment_is_valid_and_keeps_drops() {
    let assignment: Assignment = accepted(
        "cluster_name: 'a' policy { drop_overloads { category: 'c' drop_percentage { numerator: 100 } } }",
    );
    assert!(assignment.priorities.is_empty());
    assert_eq!(assignment.drops[0].share, PerMillion::ALL);
}

/// gRFC A76 and A61: attributes of an endpoint.
#[test]
fn c217_hash_key_and_additional_addresses_are_read() {
    let with = |attributes: &str| -> Assignment {
        let endpoint = format!(
            "lb_endpoints {{ endpoint {{
               address {{ socket_address {{ address: '10.0.0.1' port_value: 80 }} }}
               additional_addresses {{ address {{ socket_address {{ address: '::1' port_value: 80 }} }} }} }}
               {attributes} }}"
        );
        accepted(&of(&[locality("a", &format!("{} {endpoint}", weight(1)))]))
    };
    let key = |value: &str| {
        let metadata = format!(
            "metadata {{ filter_metadata {{ key: 'envoy.lb' value {{
               fields {{ key: 'hash_key' value {{ {value} }} }} }} }} }}"
        );
        let assignment = with(&metadata);
        assignment.priorities[0][0].endpoints[0].hash_key.clone()
    };
    assert_eq!(key("string_value: 'k'").as_deref(), Some("k"));
    assert_eq!(key("string_value: ''"), None);
    assert_eq!(key("number_value: 1"), None);
    let plain = with("");
    let endpoint = &plain.priorities[0][0].endpoints[0];
    assert_eq!(endpoint.hash_key, None);
    assert_eq!(endpoint.hostname, None);
    assert_eq!(endpoint.additional_addresses, ["[::1]:80".parse().unwrap()]);
}

#[test]
fn c217_hostname_of_an_endpoint_is_read() {
    let hostname = |field: &str| {
        let endpoint = format!(
            "lb_endpoints {{ endpoint {{ {field}
               address {{ socket_address {{ address: '10.0.0.1' port_value: 80 }} }} }} }}"
        );
        let assignment: Assignment =
            accepted(&of(&[locality("a", &format!("{} {endpoint}", weight(1)))]));
        assignment.priorities[0][0].endpoints[0].hostname.clone()
    };
    let name = hostname("hostname: 'shop.example:443'");
    assert_eq!(name.as_deref(), Some("shop.example:443"));
    assert_eq!(hostname("hostname: ''"), None);
}
