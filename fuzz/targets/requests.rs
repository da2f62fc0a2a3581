//! Any bytes as requests of one client: discovery requests over SotW, delta and REST. Their sizes are those of the
//! decoded request, a session takes them or ends with an error, and it never has endless responses.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use oxds_core::session::{Config, Request, Scope, Session};
use oxds_core::snapshot::{ChangeSet, Protocol, Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::codec::{request_from_json, request_to_json};
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use oxds_types::{RequestSize, ResourceType};
use prost::Message as _;

mod wire;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    wire::mutate(data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Some((variant, bytes)) = bytes.split_first() else {
        return;
    };
    let protocol = match variant % 3 {
        0 => Protocol::Sotw,
        1 => Protocol::Delta,
        _ => return wire::elements(bytes).for_each(rest),
    };
    let mut config = Config::default();
    config.max_names = 50;
    let mut session = Session::new(protocol, Scope::Aggregated, Arc::new(config));
    let mut now = Instant::EPOCH;
    for message in wire::elements(bytes) {
        let request = match protocol {
            Protocol::Sotw => sotw(message).map(Request::Sotw),
            Protocol::Delta => delta(message).map(Request::Delta),
        };
        let Some(request) = request else {
            continue;
        };
        now = now + Duration::from_secs(1);
        session.handle_timeout(now);
        if session.handle_request(now, request).is_err() {
            return;
        }
        drain(&mut session, now);
    }
});

fn sotw(message: &[u8]) -> Option<DiscoveryRequest> {
    let size = RequestSize::from_sotw(message);
    let request = DiscoveryRequest::decode(message).ok()?;
    let names = request.resource_names.len() + request.resource_locators.len();
    assert_eq!(size.names, names);
    let node = request.node.as_ref().map_or(0, |node| node.encoded_len());
    assert!(
        size.node >= node || repeated(message, 2),
        "{} {node}",
        size.node
    );
    Some(request)
}

fn delta(message: &[u8]) -> Option<DeltaDiscoveryRequest> {
    let size = RequestSize::from_delta(message);
    let request = DeltaDiscoveryRequest::decode(message).ok()?;
    let names = request.resource_names_subscribe.len() + request.resource_locators_subscribe.len();
    assert_eq!(size.names, names);
    // Entries of one key are one entry.
    assert!(size.versions >= request.initial_resource_versions.len());
    Some(request)
}

/// Whether a field may occur more than once. Decoders merge its occurrences.
fn repeated(message: &[u8], number: u8) -> bool {
    message
        .iter()
        .filter(|byte| **byte == number << 3 | 2)
        .count()
        > 1
}

fn rest(text: &[u8]) {
    let size = RequestSize::from_json(text);
    if let Ok(request) = request_from_json(text) {
        let names = request.resource_names.len() + request.resource_locators.len();
        assert!(size.names >= names, "{size:?} {request:?}");
        let json = request_to_json(&request).expect("a request that was read");
        let again = request_from_json(&json).expect("a request that was written");
        // The type URL selects the version, and a v2 message has fewer fields.
        assert_eq!(again.resource_names, request.resource_names);
    }
}

fn drain(session: &mut Session, now: Instant) {
    static SNAPSHOT: LazyLock<Arc<Snapshot>> = LazyLock::new(|| {
        let types = [
            ResourceType::CLUSTER,
            ResourceType::ENDPOINT,
            ResourceType::LISTENER,
        ];
        let resource = |of: &ResourceType, name| Resource::new(of.clone(), name, b"\x0a\x01a");
        let changes = types.iter().fold(ChangeSet::default(), |changes, of| {
            let changes = changes.put(resource(of, "a").with_ttl(Duration::from_secs(5)));
            changes.put(resource(of, "xdstp://a/T/c/b"))
        });
        Snapshot::unloaded().apply(changes).0
    });
    for responses in 0.. {
        assert!(responses < 1_000, "endless responses");
        let Some(sent) = session.poll_transmit(now, &SNAPSHOT) else {
            break;
        };
        assert!(sent.frame.len() > 5);
    }
    while session.poll_event().is_some() {}
    let _ = (session.status(), session.is_in_sync(&SNAPSHOT));
}
