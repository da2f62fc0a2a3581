//! Incremental: S-30 … S-50.

use std::time::Duration;

use oxds_core::{session::Event, snapshot::Limits};
use oxds_types::{Kind, Version};

use crate::support::{Stream, World, stream::delta};

const CDS: Kind = Kind::CLUSTER;
const EDS: Kind = Kind::ENDPOINT;

/// A stream that is in sync with the world: all of one kind, or some names of it.
fn synced(world: &World, kind: &Kind, names: &[&str]) -> Stream {
    let mut stream = Stream::delta();
    stream.change(kind, names, &[]);
    stream.drain(world);
    stream
}

/// What a client has that was told this.
fn has(texts: &[&str]) -> Vec<(String, String)> {
    texts
        .iter()
        .map(|text| {
            let (name, _) = text.split_once('=').unwrap();
            (name.to_owned(), Version::of(text.as_bytes()).to_string())
        })
        .collect()
}

#[test]
fn s30_a_first_request_without_names_gets_all() {
    let world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    let reply = stream.take(&world);
    assert_eq!(reply.resources, ["A=1", "B=1", "C=1"]);
    assert_eq!(reply.names, has(&["A=1", "B=1", "C=1"]));
    assert!(!reply.nonce.is_empty());
    stream.silent(&world);
}

/// As Envoy asks for virtual hosts on demand: it goes on once the name is an alias of something, be it of nothing.
#[test]
fn s34_a_virtual_host_that_there_is_not_is_told_by_its_alias() {
    let vhds = Kind::VIRTUAL_HOST;
    let mut world = World::of(&vhds, &["routes/a=1"]);
    let mut stream = Stream::delta();
    stream.change(&vhds, &["routes/a", "routes/b"], &[]);
    let reply = stream.take(&world);
    assert_eq!(reply.resources, ["routes/a=1"]);
    assert_eq!(reply.unresolved, ["routes/b"]);
    stream.silent(&world);
    world.set(&vhds, &["routes/b=1"]);
    assert_eq!(stream.take(&world).resources, ["routes/b=1"]);
    world.set(&vhds, &["-routes/a"]);
    assert_eq!(stream.take(&world).unresolved, ["routes/a"]);
}

#[test]
fn s31_of_nothing_a_wildcard_hears_so() {
    let world = World::empty();
    for names in [&[][..], &["*"]] {
        let mut stream = Stream::delta();
        stream.change(&CDS, names, &[]);
        let reply = stream.take(&world);
        assert!(reply.resources.is_empty() && reply.removed.is_empty());
        stream.silent(&world);
    }
}

#[test]
fn s32_only_what_changed_is_sent() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=1"]);
        let mut stream = synced(&world, &CDS, names);
        world.set(&CDS, &["A=2"]);
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources, reply.removed),
            (vec!["A=2".into()], vec![])
        );
        stream.silent(&world);
    }
}

#[test]
fn s33_what_was_deleted_is_removed_and_comes_back() {
    for (kind, names) in [(CDS, vec![]), (EDS, vec!["A", "B"])] {
        let mut world = World::of(&kind, &["A=1", "B=1"]);
        let mut stream = synced(&world, &kind, &names);
        world.set(&kind, &["-B"]);
        let reply = stream.take(&world);
        assert_eq!((reply.resources, reply.removed), (vec![], vec!["B".into()]));
        world.set(&kind, &["B=1"]);
        assert_eq!(stream.take(&world).names, has(&["B=1"]));
    }
}

#[test]
fn s34_what_does_not_exist_is_said_not_to_and_comes_when_it_does() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A", "Z"], &[]);
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["A=1".into()], vec!["Z".into()])
    );
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s35_a_name_that_is_asked_for_again_is_sent_again() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.change(&EDS, &["A"], &[]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
    let mut stream = synced(&World::of(&CDS, &["A=1", "B=1"]), &CDS, &["*"]);
    let world = World::of(&CDS, &["A=1", "B=1"]);
    stream.change(&CDS, &["A"], &[]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1"],
        "besides the wildcard, too"
    );
}

#[test]
fn s36_everything_that_is_asked_for_again_is_sent_again() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    for first in [&[][..], &["*"]] {
        let mut stream = synced(&world, &CDS, first);
        stream.change(&CDS, &["*"], &[]);
        assert_eq!(stream.take(&world).resources, ["A=1", "B=1"]);
        stream.silent(&world);
    }
}

#[test]
fn s37_nobody_hears_of_what_was_unsubscribed() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.change(&EDS, &[], &["B"]);
    stream.silent(&world);
    world.set(&EDS, &["B=2"]);
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

#[test]
fn s38_unsubscribing_what_was_never_asked_for_is_nothing() {
    let world = World::of(&EDS, &["A=1", "Q=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    stream.change(&EDS, &[], &["Q"]);
    stream.silent(&world);
}

#[test]
fn s39_a_name_that_leaves_a_wildcard_is_told_what_it_is() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &["*", "A", "Z"]);
    stream.change(&CDS, &[], &["A"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1"],
        "the wildcard still has it"
    );
    stream.change(&CDS, &[], &["Z"]);
    assert_eq!(stream.take(&world).removed, ["Z"]);
}

#[test]
fn s40_legacy_wildcard_then_a_name_then_nothing() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    stream.change(&CDS, &["A"], &[]);
    stream.drain(&world);
    world.set(&CDS, &["A=2", "B=2"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=2", "B=2"],
        "wildcard and A"
    );
    stream.change(&CDS, &[], &["*"]);
    stream.silent(&world);
    world.set(&CDS, &["A=3", "B=3"]);
    assert_eq!(stream.take(&world).resources, ["A=3"], "A only");
    stream.change(&CDS, &[], &["A"]);
    world.set(&CDS, &["A=4", "B=4", "C=4"]);
    stream.silent(&world);
}

#[test]
fn s41_asking_for_everything_and_for_nothing_at_once_is_nothing() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &["*"], &["*"]);
    stream.silent(&world);
    world.set(&CDS, &["A=2"]);
    stream.silent(&world);
}

#[test]
fn s42_a_wildcard_resumes_where_it_was() {
    let world = World::of(&CDS, &["A=1", "B=2"]);
    for names in [&[][..], &["*"]] {
        let mut stream = Stream::delta();
        stream.resume(&CDS, names, &has(&["A=1", "B=1", "X=1"]));
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources, reply.removed),
            (vec!["B=2".into()], vec!["X".into()])
        );
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s42_names_resume_where_they_were() {
    let world = World::of(&EDS, &["A=1", "B=2"]);
    let mut stream = Stream::delta();
    stream.resume(&EDS, &["A", "B", "X"], &has(&["A=1", "B=1", "X=1"]));
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["B=2".into()], vec!["X".into()])
    );
}

#[test]
fn a_restart_on_the_same_data_sends_nothing_again() {
    let world = || World::of(&CDS, &["A=1", "B=1"]);
    let mut before = Stream::delta();
    before.change(&CDS, &[], &[]);
    let had = before.take(&world()).names;
    // Another process, the same data.
    let mut world = world();
    let mut after = Stream::delta();
    after.resume(&CDS, &[], &had);
    let reply = after.take(&world);
    assert!(
        reply.resources.is_empty() && reply.removed.is_empty(),
        "{reply:?}"
    );
    world.set(&CDS, &["B=2"]);
    assert_eq!(after.take(&world).resources, ["B=2"]);
}

#[test]
fn s43_versions_alone_ask_for_nothing() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.resume(&EDS, &[], &has(&["A=0"]));
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    stream.silent(&world);
}

#[test]
fn s44_a_stale_nonce_does_not_gate_a_subscription() {
    let mut world = World::of(&EDS, &["A=1", "C=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    let in_flight = stream.reply(&world);
    let mut request = delta(&EDS, &["C"], &[]);
    request.response_nonce = "999".into();
    stream.send(request);
    let reply = stream.reply(&world);
    assert_eq!(reply.resources, ["C=1"]);
    assert!(stream.events().contains(&Event::StaleNonce(EDS)));
    stream.ack(&in_flight);
    stream.ack(&reply);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s45_a_rejection_may_subscribe_too() {
    let world = World::of(&EDS, &["A=bad", "D=1"]);
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A"], &[]);
    let bad = stream.reply(&world);
    let mut request = delta(&EDS, &["D"], &[]);
    request.response_nonce.clone_from(&bad.nonce);
    request.error_detail = Some(Default::default());
    stream.send(request);
    assert_eq!(stream.take(&world).resources, ["D=1"]);
    let rejected: Vec<_> = stream
        .session
        .rejections(&EDS)
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(rejected, ["A"]);
}

#[test]
fn s46_what_was_rejected_waits_for_a_change() {
    for (kind, names) in [(CDS, vec![]), (EDS, vec!["A", "B"])] {
        let mut world = World::of(&kind, &["A=1", "B=1"]);
        let mut stream = synced(&world, &kind, &names);
        world.set(&kind, &["A=2"]);
        let bad = stream.reply(&world);
        stream.nack(&bad, "A is bad");
        stream.silent(&world);
        world.set(&kind, &["B=2"]);
        assert_eq!(
            stream.take(&world).resources,
            ["B=2"],
            "{kind}: the bad one stays behind"
        );
        let status = stream.session.resource_status(&kind, "A").unwrap();
        assert!(status.rejected.is_some() && status.acked.is_some());
        world.set(&kind, &["A=3"]);
        assert_eq!(stream.take(&world).resources, ["A=3"]);
        assert_eq!(stream.session.rejections(&kind).count(), 0);
    }
}

#[test]
fn a_poisoned_resource_is_sent_once_per_content() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=poison"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "A");
    let mut sent = 0;
    for n in 0..10 {
        // It is taken away and comes back between two looks, and others change all the time.
        world.set(&CDS, &["A=1"]);
        world.set(&CDS, &["A=poison", &format!("B={n}")]);
        for reply in stream.drain(&world) {
            sent += reply
                .resources
                .iter()
                .filter(|text| *text == "A=poison")
                .count();
        }
        stream.pass(Duration::from_secs(60));
    }
    assert_eq!(sent, 0);
}

#[test]
fn s47_a_foreign_nonce_is_ignored() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    for nonce in ["", "foreign", "77"] {
        let mut request = delta(&CDS, &[], &[]);
        request.response_nonce = nonce.into();
        stream.send(request);
        stream.silent(&world);
    }
    let mut request = delta(&CDS, &[], &[]);
    request.response_nonce = "77".into();
    request.error_detail = Some(Default::default());
    stream.send(request);
    assert_eq!(
        stream.session.status()[0].nacks,
        0,
        "it rejects nothing that was sent"
    );
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s48_a_request_without_nonce_does_not_spoil_a_later_answer() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    let first = stream.reply(&world);
    stream.change(&EDS, &["B"], &[]);
    let second = stream.reply(&world);
    stream.ack(&first);
    let status = stream.session.resource_status(&EDS, "A").unwrap();
    assert_eq!(status.sent, status.acked);
    stream.ack(&second);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn a_session_that_never_answers_costs_one_response_and_a_cursor() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    stream.reply(&world);
    let footprint = {
        stream.events();
        stream.session.footprint()
    };
    for n in 0..1000 {
        world.set(&CDS, &[&format!("A={n}"), &format!("N{n}=1")]);
        stream.silent(&world);
    }
    assert_eq!(stream.session.footprint(), footprint);
}

#[test]
fn s50_a_large_change_is_split() {
    let limits = Limits {
        message_bytes: 256 + 200,
        ..Limits::default()
    };
    for names in [vec![], (0..20).map(|n| format!("N{n:02}")).collect()] {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::with_limits(limits);
        let texts: Vec<String> = (0..20).map(|n| format!("N{n:02}=1")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        world.set(&CDS, &texts);
        let mut stream = Stream::delta();
        stream.change(&CDS, &names, &[]);

        let mut nonces = Vec::new();
        let mut got = Vec::new();
        while let [reply] = &stream.poll(&world)[..] {
            assert!(reply.resources.len() < 5, "each under the limit");
            stream.ack(reply);
            nonces.push(reply.nonce.clone());
            got.extend(reply.resources.clone());
        }
        assert_eq!(got, texts, "none twice, none forgotten");
        nonces.dedup();
        assert!(nonces.len() > 4, "each with its own nonce");
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s50_changes_during_a_split_response_follow_it() {
    let limits = Limits {
        message_bytes: 256 + 100,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    world.set(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    let first = stream.reply(&world);
    world.set(&CDS, &["A=2", "-C"]);
    stream.ack(&first);
    let told: Vec<_> = stream
        .drain(&world)
        .into_iter()
        .map(|r| (r.resources, r.removed))
        .collect();
    let (resources, removed) = told
        .into_iter()
        .reduce(|mut all, (r, g)| {
            all.0.extend(r);
            all.1.extend(g);
            all
        })
        .unwrap();
    assert_eq!(resources, ["B=1", "C=1", "A=2"]);
    assert_eq!(removed, ["C"]);
}

/// Removals count too, whether they are shared by all sessions or concern this one only.
#[test]
fn s50_removals_are_split_as_well() {
    let limits = Limits {
        message_bytes: 256 + 200,
        ..Limits::default()
    };
    let names: Vec<String> = (0..40)
        .map(|n| format!("a-name-of-some-length-{n:02}"))
        .collect();
    let texts = |sign: &str, content: &str| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{sign}{name}{content}"))
            .collect()
    };
    let mut world = World::with_limits(limits);
    let set = |world: &mut World, texts: &[String]| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        world.set(&EDS, &texts);
    };
    set(&mut world, &texts("", "=1"));
    let as_text: Vec<&str> = names.iter().map(String::as_str).collect();
    for asked in [&["*"][..], &as_text] {
        let mut stream = synced(&world, &EDS, asked);
        let mut other = World {
            snapshot: std::sync::Arc::clone(&world.snapshot),
        };
        let mut changes = texts("-", "");
        changes.push("new=1".to_owned());
        set(&mut other, &changes);
        let mut removed = Vec::new();
        while let [reply] = &stream.poll(&other)[..] {
            assert!(reply.len <= limits.message_bytes, "{} bytes", reply.len);
            removed.extend(reply.removed.clone());
            stream.ack(reply);
        }
        removed.sort();
        assert_eq!(removed, names, "none twice, none forgotten");
        assert!(stream.session.is_in_sync(&other.snapshot));
    }
    // Names that do not exist, asked for all at once.
    let empty = World::with_limits(limits);
    let mut stream = Stream::delta();
    stream.change(&EDS, &as_text, &[]);
    let mut removed = Vec::new();
    while let [reply] = &stream.poll(&empty)[..] {
        assert!(reply.len <= limits.message_bytes, "{} bytes", reply.len);
        removed.extend(reply.removed.clone());
        stream.ack(reply);
    }
    assert_eq!(removed, names);
}

#[test]
fn s50_a_resource_beyond_the_limit_goes_alone_and_whole() {
    let limits = Limits {
        message_bytes: 256 + 100,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    let large = format!("B={}", "x".repeat(1000));
    world.set(&CDS, &["A=1", &large, "C=1"]);
    for names in [&[][..], &["A", "B", "C"]] {
        let mut stream = Stream::delta();
        stream.change(&CDS, names, &[]);
        let replies = stream.drain(&world);
        let told: Vec<_> = replies.into_iter().map(|reply| reply.resources).collect();
        assert_eq!(told, [["A=1"], [&*large], ["C=1"]]);
    }
}
