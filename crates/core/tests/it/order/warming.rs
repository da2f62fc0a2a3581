//! The assignment of a changed cluster is sent again, to end warming: S-54.

use super::{CDS, EDS, also_ask, envoys, resource_types, shop};
use crate::support::{Edit, Stream};

#[test]
fn s54_changed_cluster_gets_only_its_assignment_again() {
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
        assert_eq!(resource_types(&replies), ["cds", "eds"]);
        assert_eq!(replies[1].resources, ["X=1"]);
        world = shop();
        world.apply(
            Edit::default()
                .with(&CDS, "Z=1", &[(EDS, "Z")])
                .set(&EDS, "Z=1"),
        );
    }
}

/// The client would NACK the assignment again (S-80).
#[test]
fn s54_nacked_assignment_is_not_sent_with_its_cluster() {
    let mut world = shop();
    for mut stream in envoys(&world) {
        world.apply(Edit::default().set(&EDS, "X=bad"));
        let bad = stream.reply(&world);
        stream.nack(&bad, "X: no");
        world.apply(Edit::default().with(&CDS, "X=2", &[(EDS, "X")]));
        assert_eq!(resource_types(&stream.drain(&world)), ["cds"]);
        world = shop();
    }
}

#[test]
fn s54_returning_client_gets_eds_of_changed_clusters() {
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
            let sent: Vec<_> = replies.iter().map(|r| r.resources.join(" ")).collect();
            assert_eq!(sent, ["X=2", "X=1"]);
        }
    }
}
