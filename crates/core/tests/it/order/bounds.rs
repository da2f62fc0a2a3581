//! Holds are bounded in time, and visible: S-53.

use std::time::Duration;

use oxds_core::session::{Config, Event, HeldChange, OverdueChange, WaitsFor};

use super::{CDS, EDS, RDS, also_ask, envoys, held, replace, shop};
use crate::support::Edit;

#[test]
fn s53_hold_timer_ends_and_is_reported() {
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
            // Other resource types are sent without delay.
            world.apply(Edit::default().set(&EDS, "Y=2"));
            assert_eq!(stream.take(&world).resources, ["Y=2"]);

            let hold_timer = Config::default().hold;
            stream.pass(hold_timer / 2);
            stream.silent(&world);
            stream.events();
            stream.pass(hold_timer);
            let reply = stream.poll(&world).remove(0);
            assert_eq!(reply.resource_type(), "cds");
            assert!(!reply.resources.contains(&"X=1".to_owned()));
            let held = Event::HeldTooLong {
                resource_type: CDS,
                held: OverdueChange::Removal("X".into()),
            };
            assert!(stream.events().contains(&held));
            world = shop();
        }
    }
}

#[test]
fn s53_held_update_is_sent_after_the_hold_timer() {
    let mut world = shop();
    for mut stream in envoys(&world) {
        replace(&mut world);
        // The client never ACKs its clusters.
        stream.reply(&world);
        stream.silent(&world);
        stream.pass(Config::default().hold);
        let route = stream.poll(&world).pop().unwrap();
        assert_eq!(route.resources, ["main=2"]);
        let held = Event::HeldTooLong {
            resource_type: RDS,
            held: OverdueChange::Update {
                name: "main".into(),
                waits_for: WaitsFor {
                    resource_type: CDS,
                    name: Some("Y".into()),
                    missing: false,
                },
            },
        };
        assert!(stream.events().contains(&held));
        world = shop();
    }
}

#[test]
fn s53_held_changes_are_listed_with_their_cause() {
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
