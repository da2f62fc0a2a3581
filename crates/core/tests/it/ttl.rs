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

/// A delta client that says this, in sync with these names, or with everything.
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

/// One resource that lives 4 s, one that lives 10 s, and one that lives on.
fn world(resource_type: &ResourceType) -> World {
    World::of(resource_type, &["A=1@4", "B=1@10", "C=1"])
}

#[test]
fn s49_a_delta_client_is_told_the_ttl_and_that_the_resource_lives() {
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
            "half of the shorter one"
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
            "A each 2 s, B each 5 s, with the version that was sent"
        );
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s49_a_client_that_does_not_understand_it_hears_nothing_of_it() {
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

/// SotW has no other way to say that A is gone than not to confirm it.
#[test]
fn s49_sotw_lets_the_ttl_of_what_is_gone_run_out() {
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
fn s49_sotw_wraps_what_has_a_ttl_and_nothing_else() {
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
        "Envoy compares with the version of the whole that it accepted"
    );
    assert_eq!(second.version, first.version);
}

/// What a full state leaves out is removed: it cannot be left out of a sign of life.
#[test]
fn s49_a_sotw_full_state_is_confirmed_as_a_whole() {
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
        "another TTL is told at once"
    );
    world.set(&LDS, &["A=1", "-B"]);
    let none = stream.take(&world);
    assert_eq!(none.ttls, [None, None]);
    stream.pass(20 * SECOND);
    stream.silent(&world);
    assert_eq!(
        stream.session.poll_timeout(),
        None,
        "nothing to confirm is left"
    );
}

/// Envoy takes what it asked for without names for the whole, of scopes too.
#[test]
fn s49_all_scopes_are_confirmed_as_a_whole() {
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
fn s49_a_client_that_came_back_is_told_at_once_that_its_resources_live() {
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
fn s49_a_client_that_does_not_answer_is_not_sent_more() {
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
        "what was due meanwhile, once"
    );
}

/// The client refused the second version of A, and goes on with the first: that is what lives.
#[test]
fn s49_what_was_refused_is_not_confirmed() {
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
fn s50_signs_of_life_that_have_no_room_in_one_response_go_in_several() {
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
fn s49_signs_of_life_cost_what_has_a_ttl() {
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
