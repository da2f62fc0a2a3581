//! NACKs and what the client has after them: names in the text, the rest of the response, isolation, and what is never
//! reported as accepted.

use std::{collections::BTreeSet, time::Duration};

use oxds_core::{
    session::{Config, Event, Progress, Scope},
    snapshot::Protocol,
};
use oxds_types::ResourceType;

use crate::support::{
    Stream, World, configured,
    stream::{Reply, name_of, node_with, sotw},
};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;
const RDS: ResourceType = ResourceType::ROUTE;
const SDS: ResourceType = ResourceType::SECRET;

/// Subscribes to names, or to everything.
fn ask(stream: &mut Stream, resource_type: &ResourceType, names: &[&str]) {
    if stream.is_sotw() {
        stream.ask(resource_type, names);
    } else {
        stream.change(resource_type, names, &[]);
    }
}

fn open(protocol: Protocol, config: Config) -> Stream {
    Stream::open(protocol, Scope::Aggregated, config)
}

fn streams() -> [Stream; 2] {
    [Stream::sotw(), Stream::delta()]
}

fn rejected(stream: &Stream, resource_type: &ResourceType) -> Vec<String> {
    let nacked = stream.session.nacked_resources(resource_type);
    nacked.map(|(name, _)| name.to_string()).collect()
}

fn progress(stream: &Stream, world: &World, resource_type: &ResourceType) -> Progress {
    let progress = stream.session.progress(resource_type, &world.snapshot);
    progress.expect("a subscribed type")
}

/// Resources of which a response changes the content: without older copies that a full state repeats.
fn contents(reply: &Reply) -> BTreeSet<&str> {
    reply.resources.iter().map(String::as_str).collect()
}

/// Answers as a client that NACKs any response with `bad` content, and never names it. Returns the responses.
fn answer_until_silent(stream: &mut Stream, world: &World) -> Vec<Reply> {
    let mut all = Vec::new();
    loop {
        let replies = stream.poll(world);
        if replies.is_empty() {
            return all;
        }
        for reply in &replies {
            if reply.resources.iter().any(|text| text.contains("bad")) {
                stream.nack(reply, "INVALID_ARGUMENT: does not decode");
            } else {
                stream.ack(reply);
            }
        }
        all.extend(replies);
        assert!(all.len() < 1000, "the session sends without end");
    }
}

/// The text names B only after 5,000 bytes. What is stored is cut, but the whole text counts.
#[test]
fn name_after_4_kib_is_found() {
    let world = World::of(&CDS, &["A=1", "B=bad", "C=1"]);
    for mut stream in streams() {
        ask(&mut stream, &CDS, &[]);
        let first = stream.reply(&world);
        stream.nack(&first, &format!("{} cluster B: no", "x ".repeat(2500)));
        assert_eq!(rejected(&stream, &CDS), ["B"]);
        let (_, nacked) = stream.session.nacked_resources(&CDS).next().unwrap();
        assert_eq!(nacked.reason.len(), 4096);
        assert_eq!(contents(&stream.take(&world)), ["A=1", "C=1"].into());
        stream.silent(&world);
        assert_eq!(progress(&stream, &world, &CDS), Progress::Nacked);
    }
}

/// The text is as long as Envoy lets it be, and names one resource: another one may have been cut off.
#[test]
fn names_that_were_cut_off_do_not_count_as_accepted() {
    let world = World::of(&EDS, &["A=1", "B=bad", "C=bad"]);
    for mut stream in streams() {
        ask(&mut stream, &EDS, &["A", "B", "C"]);
        let first = stream.reply(&world);
        let text = format!("B: {}", "x".repeat(4096 - 3));
        stream.nack(&first, &text);
        let second = stream.reply(&world);
        assert_eq!(contents(&second), ["A=1", "C=bad"].into());
        assert_eq!(
            stream.session.resource_status(&EDS, "A").unwrap().acked,
            None
        );
        stream.nack(&second, "C: no good");
        assert_eq!(contents(&stream.take(&world)), ["A=1"].into());
        assert_eq!(rejected(&stream, &EDS), ["B", "C"]);
    }
}

/// gRPC applies the valid resources of a NACKed response (A46). Envoy does not for most types, so they are sent again.
#[test]
fn rest_of_a_nacked_response_is_sent_again() {
    for resource_type in [CDS, EDS, RDS, SDS] {
        let world = World::of(&resource_type, &["A=1", "B=bad", "C=1"]);
        for mut stream in streams() {
            ask(&mut stream, &resource_type, &["A", "B", "C"]);
            let first = stream.reply(&world);
            stream.nack(&first, "B: no good");
            let status = stream.session.resource_status(&resource_type, "A");
            assert_eq!(
                status.unwrap().acked,
                None,
                "whether it is in use is unknown"
            );
            assert_eq!(contents(&stream.take(&world)), ["A=1", "C=1"].into());
            stream.silent(&world);
            assert_eq!(rejected(&stream, &resource_type), ["B"]);
            assert_eq!(progress(&stream, &world, &resource_type), Progress::Nacked);
        }
    }
}

/// Envoy does not reach the removals of a delta response that it NACKs, except for CDS and LDS.
#[test]
fn removal_in_a_nacked_response_is_sent_again() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=1"]);
        let mut stream = Stream::delta();
        stream.change(&CDS, names, &[]);
        stream.drain(&world);
        world.set(&CDS, &["-A", "B=bad"]);
        let bad = stream.reply(&world);
        assert_eq!(
            (&bad.removed[..], bad.resources.len()),
            (&["A".to_owned()][..], 1)
        );
        stream.nack(&bad, "B: no good");
        let rest = stream.take(&world);
        assert_eq!(
            (&rest.removed[..], rest.resources.len()),
            (&["A".to_owned()][..], 0)
        );
        stream.silent(&world);
        assert_eq!(rejected(&stream, &CDS), ["B"]);
    }
}

/// Given one bad resource among ten, and a client that does not name it, then a few responses bring the others, and
/// only the bad one is shown as NACKed.
#[test]
fn unnamed_nack_holds_back_only_the_bad_resource() {
    let names: Vec<String> = (0..10).map(|n| format!("N{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (resource_type, names) in [(CDS, &[][..]), (CDS, &names), (EDS, &names)] {
        for bad in 0..10 {
            let text = |n| format!("N{n}={}", if n == bad { "bad" } else { "1" });
            let texts: Vec<String> = (0..10).map(text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let world = World::of(&resource_type, &texts);
            for mut stream in streams() {
                ask(&mut stream, &resource_type, names);
                isolates(&mut stream, &world, &resource_type, &format!("N{bad}"));
            }
        }
    }
}

fn isolates(stream: &mut Stream, world: &World, resource_type: &ResourceType, bad: &str) {
    let first = stream.reply(world);
    assert_eq!(first.resources.len(), 10);
    stream.nack(&first, "INVALID_ARGUMENT: does not decode");
    assert_eq!(stream.session.suspects(resource_type).count(), 10);
    assert_eq!(
        rejected(stream, resource_type),
        [""; 0],
        "which one is unknown"
    );
    stream.events();
    let rounds = answer_until_silent(stream, world);
    // log2(10) + 1, rounded up, and one that confirms the last suspect.
    assert!(rounds.len() <= 6, "{resource_type} {bad}: {rounds:#?}");
    assert_eq!(rejected(stream, resource_type), [bad]);
    let status = &stream.session.status()[0];
    assert_eq!(status.isolating, None);
    assert_eq!(progress(stream, world, resource_type), Progress::Nacked);
    for resource in world.snapshot.of_type(resource_type).collection().iter() {
        let status = stream
            .session
            .resource_status(resource_type, resource.name())
            .unwrap();
        let is_bad = **resource.name() == *bad;
        assert_eq!(status.acked, (!is_bad).then(|| resource.version()));
        assert_eq!(status.nacked.is_some(), is_bad);
    }
    let found = stream.events().into_iter().filter_map(|event| match event {
        Event::Nacked { resources, .. } => Some(resources),
        _ => None,
    });
    let found: Vec<_> = found.flatten().collect();
    assert_eq!(found, [bad.into()], "reported once");
    stream.silent(world);
}

/// A SotW full state cannot leave out what the client has: in place of suspects it carries the earlier versions.
#[test]
fn isolation_keeps_earlier_versions_in_use() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1", "D=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.drain(&world);
    world.set(&CDS, &["A=2", "B=bad", "C=2", "D=2"]);
    let first = stream.reply(&world);
    stream.nack(&first, "does not decode");
    let rounds = answer_until_silent(&mut stream, &world);
    for reply in &rounds {
        let names: BTreeSet<_> = reply.resources.iter().map(|text| name_of(text)).collect();
        assert_eq!(names, ["A", "B", "C", "D"].into(), "{reply:?}");
    }
    // The last round shows that B is bad; the one before it brings the others.
    let others = contents(&rounds[rounds.len() - 2]);
    assert_eq!(others, ["A=2", "B=1", "C=2", "D=2"].into());
    assert_eq!(rejected(&stream, &CDS), ["B"]);
}

/// A suspect that changes is sent in its new version, and does not make another one guilty.
#[test]
fn suspect_that_changes_is_not_blamed() {
    let mut world = World::of(&EDS, &["A=1", "B=bad"]);
    for mut stream in streams() {
        ask(&mut stream, &EDS, &["A", "B"]);
        let first = stream.reply(&world);
        stream.nack(&first, "does not decode");
        world.set(&EDS, &["B=2"]);
        answer_until_silent(&mut stream, &world);
        assert_eq!(rejected(&stream, &EDS), [""; 0]);
        assert_eq!(progress(&stream, &world, &EDS), Progress::Synced);
        world.set(&EDS, &["B=bad"]);
    }
}

/// Given clients that are not sent suspects again (polls), and more suspects than are kept by name: an ACK of something
/// else does not make them accepted.
#[test]
fn nacked_content_is_never_in_sync() {
    let texts: Vec<String> = (0..40).map(|n| format!("N{n:02}=1")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (max_nacked, isolate) in [(100, false), (3, true), (3, false)] {
        for protocol in [Protocol::Sotw, Protocol::Delta] {
            let mut world = World::of(&EDS, &texts);
            let mut stream = open(
                protocol,
                configured(|config| {
                    config.max_nacked = max_nacked;
                    config.isolate = isolate;
                }),
            );
            let names: Vec<&str> = texts
                .iter()
                .map(|text| name_of(text))
                .chain(["Z"])
                .collect();
            ask(&mut stream, &EDS, &names);
            let all = stream.reply(&world);
            stream.nack(&all, "no");
            world.set(&EDS, &["Z=1"]);
            stream.drain(&world);
            assert_eq!(progress(&stream, &world, &EDS), Progress::Nacked);
            assert!(!stream.session.is_in_sync(&world.snapshot));
            let changed: Vec<String> = (0..40).map(|n| format!("N{n:02}=2")).collect();
            let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
            world.set(&EDS, &changed);
            stream.drain(&world);
            assert!(stream.session.is_in_sync(&world.snapshot));
        }
    }
}

/// After a NACK without a name, the type is in sync only once the client has accepted everything, not by the next ACK.
#[test]
fn suspects_are_not_in_sync_while_they_are_isolated() {
    let texts: Vec<String> = (0..40).map(|n| format!("N{n:02}=1")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let world = World::of(&CDS, &texts);
    for mut stream in streams() {
        ask(&mut stream, &CDS, &[]);
        let first = stream.reply(&world);
        stream.nack(&first, "out of memory");
        assert_eq!(progress(&stream, &world, &CDS), Progress::Nacked);
        // It is a passing fault: the client accepts everything from now on.
        stream.take(&world);
        assert_eq!(progress(&stream, &world, &CDS), Progress::Stale);
        assert!(!stream.session.is_in_sync(&world.snapshot));
        let isolating = stream.session.status()[0].isolating.unwrap();
        assert_eq!((isolating.suspects, isolating.rounds), (20, 1));
        stream.drain(&world);
    }
}

#[test]
fn nacked_removal_is_never_in_sync() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=1"]);
        for mut stream in streams() {
            ask(&mut stream, &CDS, names);
            stream.drain(&world);
            world.set(&CDS, &["-A"]);
            let removal = stream.reply(&world);
            stream.nack(&removal, "A is in use");
            stream.silent(&world);
            assert_eq!(progress(&stream, &world, &CDS), Progress::Nacked);
            world.set(&CDS, &["B=2"]);
            stream.drain(&world);
            assert_eq!(progress(&stream, &world, &CDS), Progress::Nacked);
            let (name, nacked) = stream.session.nacked_resources(&CDS).next().unwrap();
            assert_eq!((&**name, nacked.removal), ("A", true));
            assert!(!stream.session.is_in_sync(&world.snapshot));
            world.set(&CDS, &["A=1", "B=1"]);
            stream.drain(&world);
            assert_eq!(progress(&stream, &world, &CDS), Progress::Synced);
        }
    }
}

/// Given a response that repeats accepted content, when the client NACKs it, then nothing is sent again: to repeat the
/// rest would be answered in the same way, without end.
#[test]
fn nack_of_repeated_content_is_not_answered() {
    for text in ["A: port in use", "out of memory"] {
        let world = World::of(&CDS, &["A=1@4", "B=1"]);
        let mut sotw_stream = Stream::sotw();
        let mut request = sotw(&CDS, &[]);
        request.node = node_with(&[
            "xds.config.supports-resource-ttl",
            "xds.config.resource-in-sotw",
        ]);
        sotw_stream.will_ask(&CDS, &[]);
        sotw_stream.send(request);
        sotw_stream.take(&world);
        // The heartbeat is the full state.
        sotw_stream.pass(Duration::from_secs(2));
        let mut delta_stream = Stream::delta();
        delta_stream.change(&CDS, &[], &[]);
        delta_stream.drain(&world);
        delta_stream.change(&CDS, &["*"], &[]);
        for mut stream in [sotw_stream, delta_stream] {
            let again = stream.reply(&world);
            assert_eq!(again.resources.len(), 2);
            stream.nack(&again, text);
            stream.silent(&world);
            assert_eq!(progress(&stream, &world, &CDS), Progress::Nacked);
        }
    }
}
