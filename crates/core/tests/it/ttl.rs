//! Resources with a TTL: S-49.

use std::time::Duration;

use oxds_core::snapshot::Limits;
use oxds_types::ResourceType;

use crate::support::{
    Stream, World,
    stream::{Beat, delta, node_with, sotw},
};

const LDS: ResourceType = ResourceType::LISTENER;
const EDS: ResourceType = ResourceType::ENDPOINT;
const TTL: &str = "xds.config.supports-resource-ttl";
const WRAPPED: &str = "xds.config.resource-in-sotw";
const SECOND: Duration = Duration::from_secs(1);

/// Opens a delta stream with these client features, in sync with these names, or with all resources.
fn delta_client(
    world: &World,
    resource_type: &ResourceType,
    names: &[&str],
    features: &[&str],
) -> Stream {
    let mut stream = Stream::delta();
    let mut request = delta(resource_type, names, &[]);
    request.node = node_with(features);
    stream.send(request);
    stream.drain(world);
    stream
}

fn beat(name: &str, version: &str, ttl: Duration) -> Beat {
    Beat {
        name: name.to_owned(),
        version: version.to_owned(),
        ttl,
    }
}

/// Returns a world with TTLs of 4 s and 10 s, and a resource without TTL.
fn world(resource_type: &ResourceType) -> World {
    World::of(resource_type, &["A=1@4", "B=1@10", "C=1"])
}

#[test]
fn s49_delta_client_gets_ttl_and_heartbeats() {
    for names in [&[][..], &["A", "B", "C"]] {
        let world = world(&LDS);
        let mut stream = Stream::delta();
        let mut request = delta(&LDS, names, &[]);
        request.node = node_with(&[TTL]);
        stream.send(request);
        let first = stream.take(&world);
        assert_eq!(first.ttls, [Some(4 * SECOND), Some(10 * SECOND), None]);
        stream.silent(&world);
        assert_eq!(
            stream.session.poll_timeout(),
            Some(stream.now + 2 * SECOND),
            "half of the shorter TTL"
        );

        let mut beats = Vec::new();
        for _ in 0..10 {
            stream.pass(SECOND);
            for reply in stream.drain(&world) {
                assert_eq!((&reply.resources, &reply.removed), (&vec![], &vec![]));
                beats.extend(reply.beats);
            }
        }
        let version = |at: usize| first.names[at].1.as_str();
        let (a, b) = (
            beat("A", version(0), 4 * SECOND),
            beat("B", version(1), 10 * SECOND),
        );
        assert_eq!(
            beats,
            [&a, &a, &b, &a, &a, &a, &b].map(Clone::clone),
            "A every 2 s, B every 5 s, with the version that was sent"
        );
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s49_client_without_the_feature_gets_no_ttl() {
    let world = world(&LDS);
    let stream = delta_client(&world, &LDS, &[], &[WRAPPED]);
    assert_eq!(stream.session.poll_timeout(), None);
    for features in [&[][..], &[TTL], &[WRAPPED]] {
        let mut stream = Stream::sotw();
        let mut request = sotw(&EDS, &["A"]);
        request.node = node_with(features);
        stream.send(request);
        let world = World::of(&EDS, &["A=1@4"]);
        let first = stream.take(&world);
        assert_eq!(
            (&*first.resources, &*first.ttls),
            (&["A=1".to_owned()][..], &[None][..])
        );
        assert_eq!(stream.session.poll_timeout(), None, "{features:?}");
    }
}

/// SotW cannot report that A was deleted, so the heartbeats end and the TTL expires.
#[test]
fn s49_sotw_ttl_of_a_deleted_resource_expires() {
    let mut world = world(&EDS);
    let mut stream = Stream::sotw();
    let mut request = sotw(&EDS, &["A", "C"]);
    request.node = node_with(&[TTL, WRAPPED]);
    stream.send(request);
    stream.will_ask(&EDS, &["A", "C"]);
    stream.take(&world);
    world.set(&EDS, &["-A"]);
    stream.silent(&world);
    stream.pass(4 * SECOND);
    stream.silent(&world);
}

#[test]
fn s49_sotw_wraps_only_resources_with_ttl() {
    let world = world(&EDS);
    let mut stream = Stream::sotw();
    let mut request = sotw(&EDS, &["A", "C"]);
    request.node = node_with(&[TTL, WRAPPED]);
    stream.send(request);
    stream.will_ask(&EDS, &["A", "C"]);
    let first = stream.take(&world);
    assert_eq!(first.ttls, [Some(4 * SECOND), None]);

    stream.pass(2 * SECOND);
    let second = stream.take(&world);
    assert_eq!(second.resources, Vec::<String>::new());
    assert_eq!(
        second.beats,
        [beat("A", &first.version, 4 * SECOND)],
        "Envoy compares with the version of the response that it accepted"
    );
    assert_eq!(second.version, first.version);
}

/// A resource that is missing from a wildcard response is deleted, so a heartbeat must have all resources.
#[test]
fn s49_sotw_wildcard_heartbeat_has_all_resources() {
    let mut world = world(&LDS);
    let mut stream = Stream::sotw();
    let mut request = sotw(&LDS, &[]);
    request.node = node_with(&[TTL, WRAPPED]);
    stream.send(request);
    let first = stream.take(&world);
    assert_eq!(first.ttls, [Some(4 * SECOND), Some(10 * SECOND), None]);
    stream.pass(2 * SECOND);
    let again = stream.take(&world);
    assert_eq!(
        (again.resources, again.version),
        (first.resources, first.version)
    );

    world.set(&LDS, &["A=1@8"]);
    let other = stream.take(&world);
    assert_eq!(
        other.ttls[0],
        Some(8 * SECOND),
        "a changed TTL is sent at once"
    );
    world.set(&LDS, &["A=1", "-B"]);
    let none = stream.take(&world);
    assert_eq!(none.ttls, [None, None]);
    stream.pass(20 * SECOND);
    stream.silent(&world);
    assert_eq!(stream.session.poll_timeout(), None, "no resource has a TTL");
}

/// Envoy reads a response to a request without names as the complete set, for scoped routes too.
#[test]
fn s49_srds_wildcard_heartbeat_has_all_resources() {
    let world = world(&ResourceType::SCOPED_ROUTE);
    let mut stream = Stream::sotw();
    let mut request = sotw(&ResourceType::SCOPED_ROUTE, &[]);
    request.node = node_with(&[TTL, WRAPPED]);
    stream.send(request);
    let first = stream.take(&world);
    stream.pass(2 * SECOND);
    let again = stream.take(&world);
    assert_eq!((again.resources, again.beats), (first.resources, vec![]));
}

#[test]
fn s49_returning_client_gets_heartbeats_at_once() {
    let world = world(&LDS);
    let mut before = delta_client(&world, &LDS, &[], &[TTL]);
    before.pass(SECOND);
    let has = ["A=1", "B=1", "C=1"].map(|text| {
        let name = text.split_once('=').unwrap().0.to_owned();
        (name, oxds_types::Version::of(text.as_bytes()).to_string())
    });
    for names in [&[][..], &["A", "B"]] {
        let mut stream = Stream::delta();
        let mut request = delta(&LDS, names, &[]);
        request.node = node_with(&[TTL]);
        request.initial_resource_versions = has.iter().cloned().collect();
        stream.send(request);
        let replies = stream.drain(&world);
        let beats = replies.iter().flat_map(|reply| &reply.beats);
        assert_eq!(
            beats.map(|beat| &*beat.name).collect::<Vec<_>>(),
            ["A", "B"]
        );
        assert!(replies.iter().all(|reply| reply.resources.is_empty()));
    }
}

#[test]
fn s49_client_without_ack_gets_no_more_heartbeats() {
    let world = world(&LDS);
    let mut stream = delta_client(&world, &LDS, &[], &[TTL]);
    stream.pass(2 * SECOND);
    let beat = stream.reply(&world);
    stream.pass(60 * SECOND);
    stream.silent(&world);
    stream.ack(&beat);
    assert_eq!(
        stream.take(&world).beats.len(),
        2,
        "heartbeats that became due before the answer are sent once"
    );
}

/// Given a client that NACKed the second version of A and uses the first, then the heartbeat has the first version.
#[test]
fn s49_heartbeat_has_the_acked_version_not_the_nacked() {
    for names in [&[][..], &["A"]] {
        let mut world = World::of(&LDS, &["A=1@4"]);
        let mut stream = Stream::delta();
        let mut request = delta(&LDS, names, &[]);
        request.node = node_with(&[TTL]);
        stream.send(request);
        let first = stream.take(&world);
        world.set(&LDS, &["A=bad@4"]);
        let bad = stream.reply(&world);
        stream.nack(&bad, "A is bad");
        stream.pass(2 * SECOND);
        let reply = stream.take(&world);
        assert_eq!(reply.beats, [beat("A", &first.names[0].1, 4 * SECOND)]);
    }
}

#[test]
fn s50_heartbeats_above_the_limit_are_split() {
    for names in [&[][..], &["A", "B", "C", "D", "E"]] {
        let mut world = World::with_limits(Limits {
            message_bytes: 256 + 100,
            ..Limits::default()
        });
        world.set(&LDS, &["A=1@4", "B=1@4", "C=1@4", "D=1@4", "E=1@4"]);
        let mut stream = delta_client(&world, &LDS, names, &[TTL]);
        world.set(&LDS, &["B=bad@4"]);
        let bad = stream.reply(&world);
        stream.nack(&bad, "B is bad");
        for _ in 0..3 {
            stream.pass(2 * SECOND);
            let replies = stream.drain(&world);
            assert!(replies.len() > 1, "{replies:?}");
            assert!(replies.iter().all(|reply| reply.len <= 256 + 100));
            let beats = replies.iter().flat_map(|reply| &reply.beats);
            assert_eq!(
                beats.map(|beat| &*beat.name).collect::<Vec<_>>(),
                ["A", "B", "C", "D", "E"]
            );
        }
    }
}

#[test]
fn s49_heartbeat_cost_is_proportional_to_ttl_resources() {
    let mut texts: Vec<String> = (0..1000).map(|n| format!("C{n}=1")).collect();
    texts[500].push_str("@4");
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let world = World::of(&LDS, &texts);
    let mut stream = delta_client(&world, &LDS, &[], &[TTL]);
    let before = world.snapshot.counters().read();
    stream.pass(2 * SECOND);
    assert_eq!(stream.take(&world).beats.len(), 1);
    let spent = world.snapshot.counters().read() - before;
    assert_eq!((spent.visits, spent.encodes), (0, 0));
}
