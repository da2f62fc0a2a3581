//! Clients that reconnect after changes: S-52, S-53.

use oxds_core::session::{Config, Event, OverdueChange};

use super::{CDS, EDS, LDS, RDS, held, replace, shop};
use crate::support::{Stream, World};

#[test]
fn s52_returning_client_with_names_gets_its_route_first() {
    // While the client was away, the configuration changed from X to Y.
    let mut world = shop();
    replace(&mut world);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X"], "what it had");
    stream.silent(&world);
    stream.ask_again(&RDS, &["main"], "what it had");
    let route = stream.reply(&world);
    assert_eq!(route.resources, ["main=2"]);
    stream.ack(&route);
    assert_eq!(
        stream.take(&world).resources,
        [""; 0],
        "X can be removed now"
    );
    stream.ask(&CDS, &["Y"]);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
}

/// A delta client reports its resources of all types, with names and with wildcards.
#[test]
fn s52_returning_delta_client_gets_its_route_first() {
    let has = |text: &str| {
        let version = oxds_types::Version::of(text.as_bytes()).to_string();
        [(text.split('=').next().unwrap().to_owned(), version)]
    };
    let mut world = shop();
    replace(&mut world);
    for clusters in [&[][..], &["X", "Y"]] {
        let mut stream = Stream::delta();
        stream.resume(&CDS, clusters, &has("X=1"));
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources, reply.removed.len()),
            (vec!["Y=1".into()], 0)
        );
        stream.resume(&EDS, &["X", "Y"], &has("X=1"));
        stream.resume(&LDS, &[], &has("front=1"));
        stream.resume(&RDS, &["main"], &has("main=1"));
        let replies = stream.drain(&world);
        let sent = replies.iter().map(|r| {
            (
                r.resource_type(),
                r.resources.join(" "),
                r.removed.join(" "),
            )
        });
        let sent: Vec<_> = sent
            .filter(|(_, sent, removed)| !(sent.is_empty() && removed.is_empty()))
            .collect();
        let expected = [
            ("eds", "Y=1", ""),
            ("rds", "main=2", ""),
            ("cds", "", "X"),
            ("eds", "", "X"),
        ];
        assert_eq!(
            sent,
            expected.map(|(resource_type, sent, removed)| (
                resource_type,
                sent.to_owned(),
                removed.to_owned()
            ))
        );
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

/// Given a delta client that reports a deleted cluster, then its removal is held: briefly if the client subscribes to
/// clusters only, else until the hold timer ends. The hold is listed and reported.
#[test]
fn s53_pending_removal_of_a_returning_client_is_bounded() {
    let mut world = shop();
    replace(&mut world);
    let has = [("X".to_owned(), "what it had".to_owned())];
    let mut alone = Stream::delta();
    alone.resume(&CDS, &[], &has);
    assert_eq!(alone.take(&world).removed, [""; 0]);
    assert!(!alone.session.is_in_sync(&world.snapshot));
    alone.pass(Config::default().follow_up);
    assert_eq!(alone.take(&world).removed, ["X"]);

    let mut stream = Stream::delta();
    stream.resume(&CDS, &[], &has);
    stream.take(&world);
    stream.change(&RDS, &["main"], &[]);
    stream.poll(&world);
    assert_eq!(held(&stream, &world, &CDS), ["removal of X for rds all"]);
    stream.pass(Config::default().hold);
    assert_eq!(stream.poll(&world)[0].removed, ["X"]);
    let held = OverdueChange::Removal("X".into());
    assert!(stream.events().contains(&Event::HeldTooLong {
        resource_type: CDS,
        held
    }));
}

#[test]
fn s53_returning_client_with_cds_only_waits_briefly() {
    let world = World::of(&CDS, &["Y=1"]);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X", "Y"], "what it had");
    stream.silent(&world);
    stream.pass(Config::default().follow_up);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
}

#[test]
fn s53_held_first_response_is_listed_with_its_cause() {
    let mut world = shop();
    replace(&mut world);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X"], "what it had");
    stream.ask_again(&RDS, &["main"], "what it had");
    assert_eq!(stream.reply(&world).resources, ["main=2"]);
    assert_eq!(held(&stream, &world, &CDS), ["answer of all for rds all"]);
}

/// Returns a SotW client with a wildcard that comes back after X was replaced, with the version that it had.
fn returning() -> (World, Stream) {
    let mut world = shop();
    let mut earlier = Stream::sotw();
    earlier.ask(&CDS, &[]);
    let version = earlier.take(&world).version;
    replace(&mut world);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &[], &version);
    (world, stream)
}

/// Given a SotW client with wildcards that returns with the version that it had: what that version contained is known,
/// so the removed cluster stays until its route has changed.
#[test]
fn returning_wildcard_client_keeps_the_cluster_of_its_route() {
    let (world, mut stream) = returning();
    stream.ask_again(&RDS, &["main"], "what it had");
    let clusters = stream.poll(&world);
    assert_eq!(clusters[0].resources, ["Y=1", "X=1"], "{clusters:?}");
    clusters.iter().for_each(|reply| stream.ack(reply));
    stream.ask(&EDS, &["Y"]);
    let rest = stream.drain(&world);
    let sent = rest
        .iter()
        .map(|r| (r.resource_type(), r.resources.join(" ")));
    let sent: Vec<_> = sent.collect();
    let expected = [("eds", "Y=1"), ("rds", "main=2"), ("cds", "Y=1")];
    assert_eq!(sent, expected.map(|(of, texts)| (of, texts.to_owned())));
    assert!(stream.session.is_in_sync(&world.snapshot));
}

/// A client subscribes to clusters first, and its routes are known only after it subscribed to them. Its answer waits
/// briefly for that.
#[test]
fn s53_returning_wildcard_client_with_cds_only_waits_briefly() {
    let (world, mut stream) = returning();
    stream.silent(&world);
    stream.pass(Config::default().follow_up);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
    stream.silent(&world);
}

/// Only changes are news, so only they can be NACKed; a version that is not known any more is answered with everything.
#[test]
fn changes_since_a_known_version_are_news() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut earlier = Stream::sotw();
    earlier.ask(&CDS, &[]);
    let version = earlier.take(&world).version;
    world.set(&CDS, &["B=bad"]);
    for (version, acked) in [(&*version, true), ("unknown", false)] {
        let mut stream = Stream::sotw();
        stream.ask_again(&CDS, &[], version);
        let bad = stream.reply(&world);
        stream.nack(&bad, "does not decode");
        let status = stream.session.resource_status(&CDS, "A").unwrap();
        assert_eq!(status.acked.is_some(), acked);
        assert_eq!(status.nacked.is_some(), !acked);
        stream.silent(&world);
    }
}
