//! Secrets of clusters and listeners: they arrive before a route uses them, and leave last (S-51 … S-53, S-55).

use std::time::Duration;

use oxds_core::session::{Config, Event, OverdueChange, WaitsFor};

use super::{CDS, EDS, LDS, RDS, SDS, also_ask, envoys, held, resource_types, shop};
use crate::support::{Edit, Stream, World, stream::delta};

/// Moves the route to a new cluster Y that needs the secret `key`.
fn secure(world: &mut World) {
    world.apply(
        Edit::default()
            .with(&RDS, "main=2", &[(CDS, "Y")])
            .with(&CDS, "Y=1", &[(EDS, "Y"), (SDS, "key")])
            .set(&EDS, "Y=1"),
    );
}

/// Subscribes to secrets as Envoy does.
fn ask_secret(stream: &mut Stream, name: &str) {
    if stream.is_sotw() {
        stream.ask(&SDS, &[name]);
    } else {
        stream.send(delta(&SDS, &[name], &[]));
    }
}

/// Accepts the new cluster and its assignment, in the order of Envoy.
fn accept_cluster(stream: &mut Stream, world: &World) {
    let is_delta = !stream.is_sotw();
    let cluster = stream.reply(world);
    assert_eq!(cluster.resource_type(), "cds");
    also_ask(stream, is_delta, "Y");
    stream.ack(&cluster);
    assert_eq!(stream.take(world).resources, ["Y=1"]);
}

/// Given a route that moves to a new cluster with a secret, then the route is sent when the client has accepted
/// cluster, assignment and secret, although it subscribes to the secret only after it has the assignment.
#[test]
fn s51_route_waits_for_the_secret_of_its_cluster() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        secure(&mut world);
        world.apply(Edit::default().set(&SDS, "key=1"));
        accept_cluster(&mut stream, &world);
        stream.silent(&world);
        assert_eq!(held(&stream, &world, &RDS), ["update of main for sds key"]);
        stream.pass(Duration::from_millis(5));
        ask_secret(&mut stream, "key");
        let secret = stream.reply(&world);
        assert_eq!(secret.resources, ["key=1"], "the route must wait");
        stream.ack(&secret);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

/// Given an assignment that arrives long after its cluster, then the route still waits for the secret.
#[test]
fn s51_route_waits_for_a_secret_after_a_late_assignment() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        secure(&mut world);
        world.apply(Edit::default().set(&SDS, "key=1"));
        let is_delta = !stream.is_sotw();
        let cluster = stream.reply(&world);
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        let assignment = stream.reply(&world);
        stream.pass(Duration::from_secs(5));
        stream.silent(&world);
        stream.ack(&assignment);
        stream.silent(&world);
        ask_secret(&mut stream, "key");
        assert_eq!(stream.take(&world).resources, ["key=1"]);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
    }
}

/// Given a secret that the client has through another cluster, then the route waits for cluster and assignment only.
#[test]
fn s51_accepted_secret_delays_nothing() {
    for at in 0..2 {
        let mut world = shop();
        world.apply(
            Edit::default()
                .with(&CDS, "X=1b", &[(EDS, "X"), (SDS, "key")])
                .set(&SDS, "key=1"),
        );
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        ask_secret(&mut stream, "key");
        stream.drain(&world);
        stream.pass(Duration::from_secs(60));
        secure(&mut world);
        accept_cluster(&mut stream, &world);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
    }
}

/// Given a secret that does not exist, then it is reported as the cause of the hold, and the route moves when the
/// secret appears.
#[test]
fn s53_missing_secret_holds_the_route_until_it_appears() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        secure(&mut world);
        accept_cluster(&mut stream, &world);
        let waits = ["update of main for sds key, which does not exist"];
        assert_eq!(held(&stream, &world, &RDS), waits);
        ask_secret(&mut stream, "key");
        // Only delta can express that it does not exist.
        let absent = stream.poll(&world);
        assert_eq!(absent.len(), at);
        absent.iter().for_each(|reply| stream.ack(reply));
        stream.pass(Config::default().hold / 2);
        stream.silent(&world);
        assert_eq!(held(&stream, &world, &RDS), waits);
        world.apply(Edit::default().set(&SDS, "key=1"));
        assert_eq!(stream.take(&world).resources, ["key=1"]);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
    }
}

/// Given a secret that never exists, then the route moves when the hold timer ends, which is reported with the secret.
/// Later updates of the route wait no more, as the client uses the cluster already.
#[test]
fn s53_hold_for_a_missing_secret_ends_once() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        secure(&mut world);
        accept_cluster(&mut stream, &world);
        ask_secret(&mut stream, "key");
        stream.drain(&world);
        stream.events();
        stream.pass(Config::default().hold);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
        let waits_for = WaitsFor {
            resource_type: SDS,
            name: Some("key".into()),
            missing: true,
        };
        let held = OverdueChange::Update {
            name: "main".into(),
            waits_for,
        };
        assert!(stream.events().contains(&Event::HeldTooLong {
            resource_type: RDS,
            held
        }));
        world.apply(Edit::default().with(&RDS, "main=3", &[(CDS, "X"), (CDS, "Y")]));
        assert_eq!(stream.take(&world).resources, ["main=3"]);
    }
}

/// Given a client without routes, then a missing secret does not hold its first ones: it would have none at all.
#[test]
fn s53_missing_secret_does_not_hold_a_first_route() {
    let mut world = shop();
    world.apply(Edit::default().with(&CDS, "X=1b", &[(EDS, "X"), (SDS, "key")]));
    for mut stream in [Stream::sotw(), Stream::delta()] {
        let mut sent = Vec::new();
        for (resource_type, names) in [
            (&CDS, &[][..]),
            (&EDS, &["X"]),
            (&SDS, &["key"]),
            (&LDS, &[]),
            (&RDS, &["main"]),
        ] {
            if stream.is_sotw() {
                stream.ask(resource_type, names);
            } else {
                stream.change(resource_type, names, &[]);
            }
            sent.extend(stream.drain(&world));
        }
        let routes: Vec<_> = sent
            .iter()
            .filter(|reply| reply.resource_type() == "rds")
            .collect();
        assert_eq!(routes.len(), 1, "{sent:?}");
    }
}

/// Given a route that waits for a missing secret, and later another one that waits for its cluster, then the end of the
/// first hold does not send the second route.
#[test]
fn s53_end_of_a_secret_hold_releases_nothing_else() {
    for at in 0..2 {
        let mut world = shop();
        world.apply(Edit::default().with(&RDS, "other=1", &[(CDS, "X")]));
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        if stream.is_sotw() {
            stream.ask(&RDS, &["main", "other"]);
        } else {
            stream.change(&RDS, &["other"], &[]);
        }
        stream.drain(&world);
        secure(&mut world);
        accept_cluster(&mut stream, &world);
        ask_secret(&mut stream, "key");
        stream.drain(&world);
        let hold = Config::default().hold;
        stream.pass(hold - Duration::from_secs(1));
        world.apply(
            Edit::default()
                .set(&CDS, "Z=1")
                .with(&RDS, "other=2", &[(CDS, "Z")]),
        );
        let cluster = stream.reply(&world);
        assert_eq!(cluster.resource_type(), "cds");
        stream.pass(Duration::from_secs(1));
        assert_eq!(stream.take(&world).resources, ["main=2"]);
        stream.silent(&world);
        stream.ack(&cluster);
        assert_eq!(stream.take(&world).resources, ["other=2"]);
    }
}

/// Clients whose secrets come from elsewhere never subscribe to them: gRPC, and Envoy with another source.
#[test]
fn s55_client_without_sds_waits_only_for_the_follow_up() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        secure(&mut world);
        accept_cluster(&mut stream, &world);
        stream.silent(&world);
        stream.pass(Config::default().follow_up);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
        stream.pass(Config::default().hold);
        assert!(
            !stream
                .events()
                .iter()
                .any(|e| matches!(e, Event::HeldTooLong { .. }))
        );
    }
}

/// Given a listener and its secret that change together, then the secret is sent first; a listener that begins to use
/// another cluster's secret waits for the ACK of that.
#[test]
fn s51_secret_is_sent_before_its_listener() {
    for at in 0..2 {
        let mut world = shop();
        let mut stream = envoys(&world).into_iter().nth(at).unwrap();
        world.apply(
            Edit::default()
                .with(&LDS, "front=2", &[(RDS, "main"), (SDS, "key")])
                .set(&SDS, "key=1"),
        );
        assert_eq!(stream.take(&world).resources, ["front=2"], "new to it");
        ask_secret(&mut stream, "key");
        stream.take(&world);
        world.apply(
            Edit::default()
                .with(&LDS, "front=3", &[(RDS, "main"), (SDS, "key")])
                .set(&SDS, "key=2"),
        );
        let both = stream.poll(&world);
        assert_eq!(resource_types(&both), ["sds", "lds"]);
        both.iter().for_each(|reply| stream.ack(reply));

        // The client is about to get the secret of a cluster, and the listener uses it, too.
        world.apply(Edit::default().set(&SDS, "other=1").with(
            &LDS,
            "front=4",
            &[(RDS, "main"), (SDS, "other")],
        ));
        if stream.is_sotw() {
            stream.ask(&SDS, &["key", "other"]);
        } else {
            stream.change(&SDS, &["other"], &[]);
        }
        let secret = stream.reply(&world);
        assert_eq!(secret.resource_type(), "sds", "the listener must wait");
        stream.ack(&secret);
        assert_eq!(stream.take(&world).resources, ["front=4"]);
    }
}

/// Given a secret that is removed together with its use in a cluster and a listener, then it is removed after the
/// client accepted both.
#[test]
fn s52_secret_is_removed_after_its_users() {
    let mut world = shop();
    world.apply(
        Edit::default()
            .with(&CDS, "X=1b", &[(EDS, "X"), (SDS, "key")])
            .with(&LDS, "front=1b", &[(RDS, "main"), (SDS, "key")])
            .set(&SDS, "key=1"),
    );
    let [_, mut stream] = envoys(&world);
    stream.change(&SDS, &["key"], &[]);
    stream.drain(&world);
    stream.pass(Duration::from_secs(60));
    world.apply(
        Edit::default()
            .with(&CDS, "X=2", &[(EDS, "X")])
            .with(&LDS, "front=2", &[(RDS, "main")])
            .set(&SDS, "-key"),
    );
    let replies = stream.poll(&world);
    assert_eq!(resource_types(&replies), ["cds", "eds", "lds"]);
    assert_eq!(held(&stream, &world, &SDS), ["removal of key for cds X"]);
    stream.ack(&replies[0]);
    stream.ack(&replies[1]);
    stream.silent(&world);
    assert_eq!(
        held(&stream, &world, &SDS),
        ["removal of key for lds front"]
    );
    stream.ack(&replies[2]);
    let last = stream.take(&world);
    assert_eq!(
        (last.resource_type(), last.removed),
        ("sds", vec!["key".into()])
    );
    stream.silent(&world);
}
