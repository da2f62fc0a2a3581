//! Cost of an update, counted and not timed.

use oxds_core::ads::{ClientConfig, ClientCounters, Protocol, Server, ServerId};
use oxds_core::resource::ResourceParsers;
use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, Node, Resource as Wrapper};

use super::{Played, cluster};

fn name(n: usize) -> String {
    format!("cluster-{n:06}")
}

fn counted(played: &mut Played, act: impl FnOnce(&mut Played)) -> ClientCounters {
    let before = played.client.counters();
    act(played);
    while played.transmit().is_some() {}
    while played.client.poll_event().is_some() {}
    played.client.counters() - before
}

fn watching(protocol: Protocol, size: usize) -> Played {
    let server = Server {
        protocol,
        ..Server::new("cp:18000")
    };
    let mut played = Played::of(ClientConfig::with_server(server, Node::default()));
    for n in 0..size {
        played.watch(&ResourceType::CLUSTER, &name(n));
    }
    played.open();
    while played.transmit().is_some() {}
    played
}

fn difference(played: &mut Played, numbers: impl Iterator<Item = usize>, service: &str) {
    let wrapped = numbers.map(|n| Wrapper {
        name: name(n),
        version: service.to_owned(),
        resource: Some(cluster(&name(n), service)),
        ..Wrapper::default()
    });
    let response = DeltaDiscoveryResponse {
        resources: wrapped.collect(),
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        nonce: service.to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let (now, server) = (played.now, ServerId::default());
    played.client.handle_delta_response(now, server, response);
}

/// Given 100,000 watched resources. When one changes, then one is decoded, and one event is sent.
#[test]
fn delta_cost_follows_the_change_not_the_watches() {
    let mut played = watching(Protocol::Delta, 100_000);
    let all = counted(&mut played, |played| difference(played, 0..100_000, "a"));
    assert_eq!((all.decoded, all.events), (100_000, 100_000));
    let one = counted(&mut played, |played| difference(played, 7..8, "b"));
    let expected = ClientCounters {
        decoded: 1,
        unchanged: 0,
        events: 1,
    };
    assert_eq!(one, expected);
}

/// Given an accepted SotW response. When it comes again, byte by byte, then nothing is decoded, and no event follows.
/// When one of its resources changed, then this one alone is decoded.
#[test]
fn c86_repeated_sotw_response_costs_a_comparison() {
    const SIZE: usize = 10_000;
    let mut played = watching(Protocol::Sotw, SIZE);
    let state = |changed: Option<usize>| {
        let service = |n| if Some(n) == changed { "new" } else { "" };
        (0..SIZE)
            .map(|n| cluster(&name(n), service(n)))
            .collect::<Vec<_>>()
    };
    let first = counted(&mut played, |played| {
        played.respond(&ResourceType::CLUSTER, "1", "1", state(None));
    });
    assert_eq!((first.decoded, first.unchanged), (SIZE as u64, 0));
    let again = counted(&mut played, |played| {
        played.respond(&ResourceType::CLUSTER, "2", "2", state(None));
    });
    let expected = ClientCounters {
        decoded: 0,
        unchanged: SIZE as u64,
        events: 0,
    };
    assert_eq!(again, expected);
    let one = counted(&mut played, |played| {
        played.respond(&ResourceType::CLUSTER, "3", "3", state(Some(7)));
    });
    assert_eq!((one.decoded, one.events), (1, 1));
}

/// Given a cached resource; then it does not keep its response in memory, which may have any size.
#[test]
fn cached_resource_does_not_keep_its_response_alive() {
    let mut played = watching(Protocol::Sotw, 1);
    let body = bytes::Bytes::from(cluster(&name(0), "").value.to_vec());
    let any = oxds_types::discovery::Any {
        value: body.clone(),
        ..cluster(&name(0), "")
    };
    played.respond(&ResourceType::CLUSTER, "1", "1", vec![any]);
    let held = played
        .client
        .cached(&ResourceType::CLUSTER, &name(0))
        .unwrap()
        .held;
    assert_eq!(held.unwrap().resource.value(), &body);
    assert!(body.is_unique(), "the response can go");
}

/// Memory of a client that has cached resources with these names.
fn taken(watched: &[&str], names: &[String]) -> allocation_counter::AllocationInfo {
    let server = Server {
        protocol: Protocol::Delta,
        ..Server::new("cp:18000")
    };
    let mut config = ClientConfig::with_server(server, Node::default());
    // The memory of a parsed value belongs to its parser.
    config.parsers = ResourceParsers::default();
    let wrapped = |name: &String| Wrapper {
        name: name.clone(),
        version: "0123456789abcdef".to_owned(),
        resource: Some(cluster(name, "")),
        ..Wrapper::default()
    };
    let mut played = Played::of(config);
    let (now, server) = (played.now, ServerId::default());
    let taken = allocation_counter::measure(|| {
        for name in watched {
            played.watch(&ResourceType::CLUSTER, name);
        }
        played.open();
        while played.transmit().is_some() {}
        let response = DeltaDiscoveryResponse {
            resources: names.iter().map(wrapped).collect(),
            type_url: ResourceType::CLUSTER.type_url().to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        played.client.handle_delta_response(now, server, response);
        while played.transmit().is_some() {}
        while played.client.poll_event().is_some() {}
    });
    assert_eq!(played.client.resources().count(), names.len());
    taken
}

/// Given 10,000 resources, watched by the wildcard or by name; then each costs its bytes, its name, an entry, and one
/// or two slots in trees that were filled in order; temporary memory is freed.
#[test]
fn cached_resource_has_small_overhead() {
    const SIZE: usize = 10_000;
    let names: Vec<_> = (0..SIZE).map(name).collect();
    let bytes: usize = names
        .iter()
        .map(|name| cluster(name, "").value.len() + name.len())
        .sum();
    let by_name: Vec<_> = names.iter().map(String::as_str).collect();
    for (watched, most) in [(&["*"][..], 190), (&by_name[..], 225)] {
        let taken = taken(watched, &names);
        let beside = (taken.bytes_current as usize - bytes) / SIZE;
        assert!(beside <= most, "{beside} bytes each");
        let allocations = taken.count_current as f64 / SIZE as f64;
        assert!(allocations <= 3.4, "{allocations} allocations each");
    }
}
