//! What is new waits for what it needs: S-51, S-55.

use std::time::Duration;

use oxds_core::session::Config;

use super::{CDS, EDS, LDS, RDS, also_ask, envoys, replace, resource_types, shop};
use crate::support::{Edit, Stream};

#[test]
fn s51_one_update_is_sent_in_the_order_of_need() {
    let world = shop();
    let mut stream = Stream::delta();
    for resource_type in [RDS, LDS, EDS, CDS] {
        let name = if resource_type == RDS { "main" } else { "X" };
        let names = if resource_type == RDS || resource_type == EDS {
            vec![name]
        } else {
            vec![]
        };
        stream.change(&resource_type, &names, &[]);
    }
    assert_eq!(
        resource_types(&stream.drain(&world)),
        ["cds", "eds", "lds", "rds"]
    );
}

#[test]
fn s51_a_route_waits_for_the_cluster_and_its_assignment() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let cluster = stream.reply(&world);
        assert_eq!(cluster.resource_type(), "cds");
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

/// A listener may hold its routes itself. It waits as a route does, be it one of all or asked for by name.
#[test]
fn s51_a_listener_with_routes_of_its_own_waits_too() {
    for names in [&[][..], &["front"]] {
        for mut stream in [Stream::sotw(), Stream::delta()] {
            let mut world = shop();
            let is_delta = !stream.is_sotw();
            for (resource_type, names) in [(&CDS, &[][..]), (&EDS, &["X"]), (&LDS, names)] {
                match is_delta {
                    true => stream.change(resource_type, names, &[]),
                    false => stream.ask(resource_type, names),
                }
                stream.drain(&world);
            }
            stream.pass(Duration::from_secs(60));
            world.apply(
                Edit::default()
                    .with(&LDS, "front=2", &[(CDS, "Y")])
                    .with(&CDS, "Y=1", &[(EDS, "Y")])
                    .set(&EDS, "Y=1"),
            );
            let cluster = stream.reply(&world);
            assert_eq!(cluster.resource_type(), "cds");
            also_ask(&mut stream, is_delta, "Y");
            stream.ack(&cluster);
            let assignment = stream.take(&world);
            assert_eq!(assignment.resources, ["Y=1"], "and not the listener");
            assert_eq!(stream.take(&world).resources, ["front=2"]);
        }
    }
}

#[test]
fn s55_a_type_that_nobody_asked_for_delays_nothing() {
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
        assert_eq!(resource_types(&stream.drain(&world)), ["lds", "rds"]);
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
        assert_eq!(resource_types(&replies), ["cds", "rds"], "round {n}");
        replies.iter().for_each(|reply| stream.ack(reply));
    }
}
