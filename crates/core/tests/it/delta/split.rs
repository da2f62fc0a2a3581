//! Responses that are too large for one message: S-50.

use oxds_core::snapshot::Limits;

use super::{CDS, EDS, synced};
use crate::support::{Stream, World};

#[test]
fn s50_large_update_is_split() {
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
        assert_eq!(got, texts, "each exactly once");
        nonces.dedup();
        assert!(nonces.len() > 4, "each with its own nonce");
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

/// Given a split response, when the client NACKs one part, then only the resources of this part are NACKed.
#[test]
fn s50_nack_of_one_part_does_not_affect_other_parts() {
    let limits = Limits {
        message_bytes: 256 + 100,
        ..Limits::default()
    };
    let texts = ["A=1", "B=1", "C=1"];
    for (names, nacked) in [(&[][..], 0), (&[], 1), (&[], 2), (&["A", "B", "C"], 1)] {
        let mut world = World::with_limits(limits);
        world.set(&CDS, &texts);
        let mut stream = Stream::delta();
        stream.change(&CDS, names, &[]);
        for (at, text) in texts.iter().enumerate() {
            let part = stream.reply(&world);
            assert_eq!(part.resources, [*text]);
            if at == nacked {
                stream.nack(&part, "no");
            } else {
                stream.ack(&part);
            }
        }
        stream.silent(&world);
        let rejections = stream.session.nacked_resources(&CDS);
        let rejections: Vec<_> = rejections.map(|(name, _)| &**name).collect();
        assert_eq!(rejections, [&texts[nacked][..1]]);
    }
}

#[test]
fn s50_changes_during_a_split_response_are_sent_after_it() {
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
    let sent: Vec<_> = stream
        .drain(&world)
        .into_iter()
        .map(|r| (r.resources, r.removed))
        .collect();
    let (resources, removed) = sent
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

/// Removals count towards the limit, whether all sessions share them or only one has them.
#[test]
fn s50_removals_are_split_too() {
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
        assert_eq!(removed, names, "each exactly once");
        assert!(stream.session.is_in_sync(&other.snapshot));
    }
    // Names that do not exist, in one request.
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
fn s50_resource_above_the_limit_is_sent_alone() {
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
        let sent: Vec<_> = replies.into_iter().map(|reply| reply.resources).collect();
        assert_eq!(sent, [["A=1"], [&*large], ["C=1"]]);
    }
}
