//! Removals wait until no resource refers to them: S-52; atomic change sets: S-69.

use std::time::Duration;

use oxds_core::session::Event;

use super::{CDS, EDS, LDS, RDS, SDS, also_ask, envoys, held, replace, shop};
use crate::support::{Edit, Stream, World};

#[test]
fn s52_cluster_is_removed_after_its_route_is_acked() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let cluster = stream.reply(&world);
        let mut clusters = cluster.resources.clone();
        clusters.sort();
        let expected: &[&str] = if is_delta { &["Y=1"] } else { &["X=1", "Y=1"] };
        assert_eq!(clusters, expected);
        assert_eq!(cluster.removed, [""; 0]);
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        stream.take(&world);
        let route = stream.reply(&world);
        assert_eq!(route.resources, ["main=2"]);
        stream.silent(&world);

        stream.ack(&route);
        let replies = stream.poll(&world);
        replies.iter().for_each(|reply| stream.ack(reply));
        if is_delta {
            let sent: Vec<_> = replies
                .iter()
                .map(|r| (r.resource_type(), r.removed.join(" ")))
                .collect();
            assert_eq!(sent, [("cds", "X".into()), ("eds", "X".into())]);
        } else {
            assert_eq!(replies[0].resources, ["Y=1"]);
            stream.ask(&EDS, &["Y"]);
        }
        stream.silent(&world);
        assert!(stream.session.is_in_sync(&world.snapshot));
        assert!(
            !stream
                .events()
                .iter()
                .any(|e| matches!(e, Event::HeldTooLong { .. }))
        );
        world = shop();
    }
}

/// Given a NACK of a response whose removal of X is held, then X is not removed while the route uses it.
#[test]
fn s52_removal_is_held_after_a_nack() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).expect("a stream");
        replace(&mut world);
        let cluster = stream.reply(&world);
        stream.nack(&cluster, "Y is bad");
        for reply in stream.drain(&world) {
            let keeps = stream.is_sotw() && reply.resources.contains(&"X=1".to_owned());
            let removes = reply.removed.contains(&"X".to_owned()) || stream.is_sotw() && !keeps;
            assert!(reply.resource_type() != "cds" || !removes, "{reply:?}");
        }
    }
}

/// Given a route to an aggregate of aggregates, when another cluster replaces all of them, then they stay until the
/// route is ACKed.
#[test]
fn s52_clusters_of_an_aggregate_are_removed_with_it() {
    let mut world = shop();
    world.apply(
        Edit::default()
            .with(&RDS, "main=1b", &[(CDS, "both")])
            .with(&CDS, "both=1", &[(CDS, "all")])
            .with(&CDS, "all=1", &[(CDS, "X")])
            .with(&CDS, "idle=1", &[(CDS, "spare")])
            .with(&CDS, "spare=1", &[]),
    );
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        let mut world = World {
            snapshot: world.snapshot.clone(),
        };
        replace(&mut world);
        let gone = ["-both", "-all", "-idle", "-spare"];
        let edit = gone
            .iter()
            .fold(Edit::default(), |edit, name| edit.set(&CDS, name));
        world.apply(edit);
        let cluster = stream.reply(&world);
        let mut clusters = cluster.resources.clone();
        clusters.sort();
        if is_delta {
            assert_eq!(clusters, ["Y=1"]);
            assert_eq!(cluster.removed, ["idle", "spare"]);
        } else {
            assert_eq!(clusters, ["X=1", "Y=1", "all=1", "both=1"]);
        }
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        stream.take(&world);
        let route = stream.reply(&world);
        assert_eq!(route.resources, ["main=2"]);
        stream.silent(&world);
        stream.ack(&route);
        let mut last = stream.poll(&world).remove(0);
        last.removed.sort();
        if is_delta {
            assert_eq!(last.removed, ["X", "all", "both"]);
        } else {
            assert_eq!(last.resources, ["Y=1"]);
        }
    }
}

#[test]
fn s52_client_with_names_controls_cluster_removal() {
    // gRPC ACKs the route at once, and uses it when the new cluster is complete.
    let mut world = shop();
    let mut stream = Stream::sotw();
    stream.ask(&RDS, &["main"]);
    stream.ask(&CDS, &["X"]);
    stream.ask(&EDS, &["X"]);
    stream.drain(&world);
    replace(&mut world);
    let route = stream.reply(&world);
    assert_eq!(
        route.resources,
        ["main=2"],
        "the client is not subscribed to Y"
    );
    stream.ack(&route);
    stream.silent(&world);
    stream.ask(&CDS, &["X", "Y"]);
    let clusters = stream.take(&world);
    assert_eq!(clusters.resources, ["X=1", "Y=1"]);
    stream.ask(&EDS, &["X", "Y"]);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
    stream.ask(&CDS, &["Y"]);
    stream.ask(&EDS, &["Y"]);
    stream.silent(&world);
    stream.pass(Duration::from_secs(60));
    stream.silent(&world);
}

#[test]
fn s52_unreferenced_cluster_is_removed_at_once() {
    let mut world = shop();
    world.apply(Edit::default().with(&CDS, "Idle=1", &[]));
    for mut stream in envoys(&world) {
        // The client never ACKs its routes.
        world.apply(Edit::default().with(&RDS, "main=2", &[(CDS, "X")]));
        stream.reply(&world);
        world.apply(Edit::default().set(&CDS, "-Idle"));
        let reply = stream.reply(&world);
        assert_eq!(reply.resource_type(), "cds");
        assert!(!reply.resources.contains(&"Idle=1".to_owned()));
        world = shop();
        world.apply(Edit::default().with(&CDS, "Idle=1", &[]));
    }
}

/// Given a listener with a secret whose removal waits for the answer to a route, when the client answers, then the
/// listener is removed, and nothing of it is kept: only clusters cause subscriptions that the client has yet to end.
#[test]
fn released_listener_is_not_noted_as_a_cluster() {
    for mut stream in [Stream::sotw(), Stream::delta()] {
        let mut world = World::empty();
        world.apply(
            Edit::default()
                .with(&LDS, "front=1", &[(RDS, "main"), (SDS, "key")])
                .set(&LDS, "back=1")
                .set(&RDS, "main=1")
                .set(&SDS, "key=1"),
        );
        for (resource_type, names) in [(&LDS, &[][..]), (&SDS, &["key"]), (&RDS, &["main"])] {
            if stream.is_sotw() {
                stream.ask(resource_type, names);
            } else {
                stream.change(resource_type, names, &[]);
            }
            if *resource_type != RDS {
                stream.take(&world);
            }
        }
        let route = stream.reply(&world);
        world.apply(Edit::default().set(&LDS, "-front"));
        stream.silent(&world);
        assert_eq!(
            held(&stream, &world, &LDS),
            ["removal of front for rds all"]
        );

        stream.ack(&route);
        let listeners = stream.take(&world);
        let (left, removed) = (listeners.resources, listeners.removed);
        if stream.is_sotw() {
            assert_eq!(left, ["back=1"]);
        } else {
            assert_eq!(removed, ["front"]);
        }
        stream.silent(&world);

        assert!(stream.session.is_in_sync(&world.snapshot));
        assert_eq!(stream.session.poll_timeout(), None);
        stream.events();
        assert_eq!(stream.session.footprint(), 2, "the names key and main");
    }
}

#[test]
fn s69_change_set_is_sent_completely() {
    let mut world = shop();
    let [_, mut stream] = envoys(&world);
    // A response is outstanding during the change. The change must not be split.
    world.apply(
        Edit::default()
            .with(&CDS, "X=2", &[(EDS, "X")])
            .set(&CDS, "N=1"),
    );
    let first = stream.poll(&world).remove(0);
    world.apply(
        Edit::default()
            .set(&CDS, "P=1")
            .set(&CDS, "-N")
            .with(&CDS, "X=3", &[(EDS, "X")]),
    );
    stream.ack(&first);
    let reply = stream
        .poll(&world)
        .into_iter()
        .find(|reply| reply.resource_type() == "cds")
        .unwrap();
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["P=1".into(), "X=3".into()], vec!["N".into()])
    );
}
