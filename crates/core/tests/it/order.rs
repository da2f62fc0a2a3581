//! Make before break: S-51 … S-55, and S-69.

use std::time::Duration;

use oxds_core::session::{Config, Event, Held, HeldBack, HeldChange, WaitsFor};
use oxds_types::Kind;

use crate::support::{
    Edit, Stream, World,
    stream::{Reply, delta},
};

const CDS: Kind = Kind::CLUSTER;
const EDS: Kind = Kind::ENDPOINT;
const LDS: Kind = Kind::LISTENER;
const RDS: Kind = Kind::ROUTE;

/// A listener, its route, one cluster and its assignment.
fn shop() -> World {
    let mut world = World::empty();
    world.apply(
        Edit::default()
            .with(&LDS, "front=1", &[(RDS, "main")])
            .with(&RDS, "main=1", &[(CDS, "X")])
            .with(&CDS, "X=1", &[(EDS, "X")])
            .set(&EDS, "X=1"),
    );
    world
}

/// Cluster X is replaced by Y, and the route follows.
fn replace(world: &mut World) {
    world.apply(
        Edit::default()
            .with(&RDS, "main=2", &[(CDS, "Y")])
            .with(&CDS, "Y=1", &[(EDS, "Y")])
            .set(&EDS, "Y=1")
            .set(&CDS, "-X")
            .set(&EDS, "-X"),
    );
}

/// Both protocol variants, subscribed as Envoy does: clusters and listeners all, the others by name.
fn envoys(world: &World) -> [Stream; 2] {
    let mut sotw = Stream::sotw();
    sotw.ask(&CDS, &[]);
    sotw.drain(world);
    sotw.ask(&EDS, &["X"]);
    sotw.ask(&LDS, &[]);
    sotw.drain(world);
    sotw.ask(&RDS, &["main"]);
    sotw.drain(world);
    let mut delta = Stream::delta();
    delta.change(&CDS, &[], &[]);
    delta.drain(world);
    delta.change(&EDS, &["X"], &[]);
    delta.change(&LDS, &[], &[]);
    delta.drain(world);
    delta.change(&RDS, &["main"], &[]);
    delta.drain(world);
    // Long after start-up.
    [sotw, delta].map(|mut stream| {
        stream.pass(Duration::from_secs(60));
        stream
    })
}

/// The client asks for an assignment besides.
fn also_ask(stream: &mut Stream, is_delta: bool, name: &str) {
    if is_delta {
        stream.send(delta(&EDS, &[name], &[]));
    } else {
        stream.ask(&EDS, &["X", name]);
    }
}

fn kinds(replies: &[Reply]) -> Vec<&str> {
    replies.iter().map(Reply::kind).collect()
}

#[test]
fn s51_one_update_is_sent_in_the_order_of_need() {
    let world = shop();
    let mut stream = Stream::delta();
    for kind in [RDS, LDS, EDS, CDS] {
        let name = if kind == RDS { "main" } else { "X" };
        let names = if kind == RDS || kind == EDS {
            vec![name]
        } else {
            vec![]
        };
        stream.change(&kind, &names, &[]);
    }
    assert_eq!(kinds(&stream.drain(&world)), ["cds", "eds", "lds", "rds"]);
}

#[test]
fn s51_a_route_waits_for_the_cluster_and_its_assignment() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let cluster = stream.reply(&world);
        assert_eq!(cluster.kind(), "cds");
        // As Envoy does: the request for the assignment, then the acknowledgement of the cluster.
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        let assignment = stream.reply(&world);
        assert_eq!(assignment.resources, ["Y=1"], "and not the route");
        stream.ack(&assignment);
        assert_eq!(stream.reply(&world).resources, ["main=2"]);
        world = shop();
    }
}

#[test]
fn s51_a_route_waits_for_the_request_that_follows_a_cluster() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let cluster = stream.reply(&world);
        stream.ack(&cluster);
        stream.silent(&world);
        stream.pass(Duration::from_millis(5));
        also_ask(&mut stream, is_delta, "Y");
        let assignment = stream.reply(&world);
        assert_eq!(assignment.resources, ["Y=1"]);
        stream.ack(&assignment);
        assert_eq!(stream.reply(&world).resources, ["main=2"]);
        world = shop();
    }
}

#[test]
fn s52_a_cluster_leaves_only_after_its_route() {
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
            let told: Vec<_> = replies
                .iter()
                .map(|r| (r.kind(), r.removed.join(" ")))
                .collect();
            assert_eq!(told, [("cds", "X".into()), ("eds", "X".into())]);
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

#[test]
fn s52_a_client_that_asks_by_name_says_itself_when_a_cluster_may_leave() {
    // gRPC: the route is accepted at once, and used when the new cluster is complete.
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
        "it waits for nothing that the client did not ask for"
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
fn s52_a_client_that_comes_back_by_name_learns_of_its_route_first() {
    // While it was away, everything moved from X to Y.
    let mut world = shop();
    replace(&mut world);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X"], "what it had");
    stream.silent(&world);
    stream.ask_again(&RDS, &["main"], "what it had");
    let route = stream.reply(&world);
    assert_eq!(route.resources, ["main=2"]);
    stream.ack(&route);
    assert_eq!(stream.take(&world).resources, [""; 0], "now X may go");
    stream.ask(&CDS, &["Y"]);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
}

/// Over delta it says what it has of all kinds, by name or not.
#[test]
fn s52_a_delta_client_that_comes_back_learns_of_its_route_first() {
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
        let told = replies
            .iter()
            .map(|r| (r.kind(), r.resources.join(" "), r.removed.join(" ")));
        let told: Vec<_> = told
            .filter(|(_, told, gone)| !(told.is_empty() && gone.is_empty()))
            .collect();
        let expected = [
            ("eds", "Y=1", ""),
            ("rds", "main=2", ""),
            ("cds", "", "X"),
            ("eds", "", "X"),
        ];
        assert_eq!(
            told,
            expected.map(|(kind, told, gone)| (kind, told.to_owned(), gone.to_owned()))
        );
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

/// Bounded, reported, and to be read; and of a client that asks for clusters only, soon over.
#[test]
fn s53_what_is_gone_since_a_delta_client_was_here_goes_in_the_end() {
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
    let held = Held::Removal("X".into());
    assert!(
        stream
            .events()
            .contains(&Event::HeldTooLong { kind: CDS, held })
    );
}

#[test]
fn s53_a_client_that_comes_back_for_clusters_only_is_answered_soon() {
    let world = World::of(&CDS, &["Y=1"]);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X", "Y"], "what it had");
    stream.silent(&world);
    stream.pass(Config::default().follow_up);
    assert_eq!(stream.take(&world).resources, ["Y=1"]);
}

#[test]
fn s52_what_nothing_refers_to_leaves_at_once() {
    let mut world = shop();
    world.apply(Edit::default().with(&CDS, "Idle=1", &[]));
    for mut stream in envoys(&world) {
        // The client never answers for its routes.
        world.apply(Edit::default().with(&RDS, "main=2", &[(CDS, "X")]));
        stream.reply(&world);
        world.apply(Edit::default().set(&CDS, "-Idle"));
        let reply = stream.reply(&world);
        assert_eq!(reply.kind(), "cds");
        assert!(!reply.resources.contains(&"Idle=1".to_owned()));
        world = shop();
        world.apply(Edit::default().with(&CDS, "Idle=1", &[]));
    }
}

#[test]
fn s53_holding_is_bounded_and_reported() {
    for nack in [false, true] {
        let mut world = shop();
        for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
            replace(&mut world);
            let cluster = stream.reply(&world);
            also_ask(&mut stream, is_delta, "Y");
            stream.ack(&cluster);
            stream.take(&world);
            let route = stream.reply(&world);
            if nack {
                stream.nack(&route, "main: no");
            }
            stream.silent(&world);
            // Other kinds flow meanwhile.
            world.apply(Edit::default().set(&EDS, "Y=2"));
            assert_eq!(stream.take(&world).resources, ["Y=2"]);

            let patience = Config::default().hold;
            stream.pass(patience / 2);
            stream.silent(&world);
            stream.events();
            stream.pass(patience);
            let reply = stream.poll(&world).remove(0);
            assert_eq!(reply.kind(), "cds");
            assert!(!reply.resources.contains(&"X=1".to_owned()));
            let held = Event::HeldTooLong {
                kind: CDS,
                held: Held::Removal("X".into()),
            };
            assert!(stream.events().contains(&held));
            world = shop();
        }
    }
}

#[test]
fn s53_an_update_that_waits_goes_in_the_end() {
    let mut world = shop();
    for mut stream in envoys(&world) {
        replace(&mut world);
        // The client never answers for its clusters.
        stream.reply(&world);
        stream.silent(&world);
        stream.pass(Config::default().hold);
        let route = stream.poll(&world).pop().unwrap();
        assert_eq!(route.resources, ["main=2"]);
        let held = Event::HeldTooLong {
            kind: RDS,
            held: Held::Update,
        };
        assert!(stream.events().contains(&held));
        world = shop();
    }
}

/// What is held back of a kind: the change, of what, and what it waits for.
fn held(stream: &Stream, world: &World, kind: &Kind) -> Vec<String> {
    let text = |held: HeldBack| {
        let name = held.name.as_deref().unwrap_or("all");
        let waits_for = match held.waits_for {
            Some(WaitsFor { kind, name }) => format!("{kind} {}", name.as_deref().unwrap_or("all")),
            None => "nothing".to_owned(),
        };
        format!("{} of {name} for {waits_for}", held.change.as_str())
    };
    let held: Vec<_> = stream
        .session
        .held_back(kind, &world.snapshot)
        .map(text)
        .collect();
    let status = stream.session.status();
    let counted = status.iter().find(|status| status.kind == *kind);
    assert_eq!(counted.map(|status| status.held), Some(held.len()));
    held
}

#[test]
fn s53_what_is_held_back_is_told_with_its_cause() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let since = stream.now;
        let cluster = stream.reply(&world);
        let removal = ["removal of X for rds main"];
        assert_eq!(held(&stream, &world, &CDS), removal);
        assert_eq!(held(&stream, &world, &RDS), ["update of main for cds Y"]);
        stream.pass(Duration::from_millis(5));
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        let assignment = stream.reply(&world);
        assert_eq!(held(&stream, &world, &RDS), ["update of main for eds Y"]);
        stream.ack(&assignment);
        let route = stream.reply(&world);
        assert_eq!(held(&stream, &world, &RDS), [""; 0]);
        assert_eq!(held(&stream, &world, &CDS), removal);
        let first = stream
            .session
            .held_back(&CDS, &world.snapshot)
            .next()
            .unwrap();
        assert_eq!((first.since, first.change), (since, HeldChange::Removal));
        assert!(!stream.session.is_in_sync(&world.snapshot));

        stream.ack(&route);
        stream.drain(&world);
        assert_eq!(held(&stream, &world, &CDS), [""; 0]);
        world = shop();
    }
}

#[test]
fn s53_a_first_answer_that_is_held_back_says_what_for() {
    let mut world = shop();
    replace(&mut world);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &["X"], "what it had");
    stream.ask_again(&RDS, &["main"], "what it had");
    assert_eq!(stream.reply(&world).resources, ["main=2"]);
    assert_eq!(held(&stream, &world, &CDS), ["answer of all for rds all"]);
}

#[test]
fn s54_a_changed_cluster_gets_its_assignment_again_and_only_that() {
    let mut world = shop();
    world.apply(
        Edit::default()
            .with(&CDS, "Z=1", &[(EDS, "Z")])
            .set(&EDS, "Z=1"),
    );
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        also_ask(&mut stream, is_delta, "Z");
        stream.drain(&world);
        world.apply(Edit::default().with(&CDS, "X=2", &[(EDS, "X")]));
        let replies = stream.drain(&world);
        assert_eq!(kinds(&replies), ["cds", "eds"]);
        assert_eq!(replies[1].resources, ["X=1"]);
        world = shop();
        world.apply(
            Edit::default()
                .with(&CDS, "Z=1", &[(EDS, "Z")])
                .set(&EDS, "Z=1"),
        );
    }
}

#[test]
fn s54_a_cluster_that_changed_while_the_client_was_away_gets_its_assignment_too() {
    let mut world = shop();
    world.apply(
        Edit::default()
            .with(&CDS, "Z=1", &[(EDS, "Z")])
            .set(&EDS, "Z=1"),
    );
    let mut before = Stream::delta();
    before.change(&CDS, &[], &[]);
    before.change(&EDS, &["X", "Z"], &[]);
    let had: Vec<_> = before
        .drain(&world)
        .into_iter()
        .map(|reply| reply.names)
        .collect();
    world.apply(Edit::default().with(&CDS, "X=2", &[(EDS, "X")]));
    for clusters_first in [true, false] {
        let mut after = Stream::delta();
        let (cds, eds) = (&had[0], &had[1]);
        if clusters_first {
            after.resume(&CDS, &[], cds);
            after.ack_all(&world);
            after.resume(&EDS, &["X", "Z"], eds);
            assert_eq!(after.take(&world).resources, ["X=1"]);
        } else {
            after.resume(&EDS, &["X", "Z"], eds);
            after.resume(&CDS, &[], cds);
            let replies = after.drain(&world);
            let told: Vec<_> = replies.iter().map(|r| r.resources.join(" ")).collect();
            assert_eq!(told, ["X=2", "X=1"]);
        }
    }
}

#[test]
fn s55_a_kind_that_nobody_asked_for_delays_nothing() {
    let mut world = shop();
    for is_delta in [false, true] {
        // Listeners and routes only: the clusters come from elsewhere.
        let mut stream = if is_delta {
            Stream::delta()
        } else {
            Stream::sotw()
        };
        if is_delta {
            stream.change(&LDS, &[], &[]);
            stream.change(&RDS, &["main"], &[]);
        } else {
            stream.ask(&LDS, &[]);
            stream.ask(&RDS, &["main"]);
        }
        assert_eq!(kinds(&stream.drain(&world)), ["lds", "rds"]);
        replace(&mut world);
        assert_eq!(stream.take(&world).resources, ["main=2"]);
        world = shop();
    }
}

#[test]
fn s55_a_client_without_assignments_waits_no_longer_than_the_follow_up() {
    let mut world = shop();
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    stream.change(&RDS, &["main"], &[]);
    stream.drain(&world);
    replace(&mut world);
    stream.take(&world);
    stream.silent(&world);
    stream.pass(Config::default().follow_up);
    assert_eq!(stream.take(&world).resources, ["main=2"]);
}

#[test]
fn s69_a_change_set_is_seen_whole_by_everyone() {
    let mut world = shop();
    let [_, mut stream] = envoys(&world);
    // A response is outstanding while the change is made; nothing of it may be seen half.
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
        .find(|reply| reply.kind() == "cds")
        .unwrap();
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["P=1".into(), "X=3".into()], vec!["N".into()])
    );
}

#[test]
fn routes_do_not_starve_while_unrelated_clusters_come_and_go() {
    let mut world = shop();
    let [_, mut stream] = envoys(&world);
    for n in 0..20 {
        world.apply(
            Edit::default()
                .with(&CDS, &format!("N{n}=1"), &[(EDS, &format!("N{n}"))])
                .set(&EDS, &format!("N{n}=1"))
                .with(&RDS, &format!("main={}", n + 10), &[(CDS, "X")]),
        );
        let replies = stream.poll(&world);
        assert_eq!(kinds(&replies), ["cds", "rds"], "round {n}");
        replies.iter().for_each(|reply| stream.ack(reply));
    }
}
