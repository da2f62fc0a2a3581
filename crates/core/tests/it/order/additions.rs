//! Additions wait for the resources that they refer to: S-51, S-55.

use std::time::Duration;

use oxds_core::session::Config;

use super::{CDS, EDS, LDS, RDS, also_ask, envoys, replace, resource_types, shop};
use crate::support::{Edit, Stream};

#[test]
fn s51_update_is_sent_in_make_before_break_order() {
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
fn s51_route_waits_for_acks_of_cluster_and_assignment() {
    let mut world = shop();
    for (is_delta, mut stream) in [false, true].into_iter().zip(envoys(&world)) {
        replace(&mut world);
        let cluster = stream.reply(&world);
        assert_eq!(cluster.resource_type(), "cds");
        // As Envoy does: first the request for the assignment, then the ACK of the cluster.
        also_ask(&mut stream, is_delta, "Y");
        stream.ack(&cluster);
        let assignment = stream.reply(&world);
        assert_eq!(assignment.resources, ["Y=1"], "the route must wait");
        stream.ack(&assignment);
        assert_eq!(stream.reply(&world).resources, ["main=2"]);
        world = shop();
    }
}

#[test]
fn s51_route_waits_for_the_eds_request_after_a_cluster() {
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

/// A listener with inline routes waits as a route does, both for a wildcard and for names.
#[test]
fn s51_listener_with_inline_routes_waits_for_clusters() {
    for names in [&[][..], &["front"]] {
        for mut stream in [Stream::sotw(), Stream::delta()] {
            let mut world = shop();
            let is_delta = !stream.is_sotw();
            for (resource_type, names) in [(&CDS, &[][..]), (&EDS, &["X"]), (&LDS, names)] {
                if is_delta {
                    stream.change(resource_type, names, &[]);
                } else {
                    stream.ask(resource_type, names);
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
            assert_eq!(assignment.resources, ["Y=1"], "the listener must wait");
            assert_eq!(stream.take(&world).resources, ["front=2"]);
        }
    }
}

#[test]
fn s55_type_without_subscription_delays_nothing() {
    let mut world = shop();
    for is_delta in [false, true] {
        // Listeners and routes only: the clusters come from another source.
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
fn s55_client_without_eds_waits_only_for_the_follow_up() {
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
fn routes_do_not_starve_while_unrelated_clusters_change() {
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
