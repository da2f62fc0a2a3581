//! Names that a client does not get, with the reason in `resource_errors` (xRFC TP3).

use oxds_core::session::{ResourceErrorCode, ResourceErrorDetail};
use oxds_types::ResourceType;

use crate::support::{
    Stream, World,
    stream::{Reply, delta, node_with, sotw},
};

const SDS: ResourceType = ResourceType::SECRET;
const EDS: ResourceType = ResourceType::ENDPOINT;
const ERRORS: &str = "xds.config.supports-resource-errors";

fn denied() -> ResourceErrorDetail {
    ResourceErrorDetail {
        code: ResourceErrorCode::PermissionDenied,
        message: "not for you".to_owned(),
    }
}

/// Handles a request for A and B as the driver does, if the client is denied B.
fn ask(stream: &mut Stream, features: &[&str]) {
    stream.session.deny(SDS, "B", denied());
    if stream.is_sotw() {
        let mut request = sotw(&SDS, &["A"]);
        request.node = node_with(features);
        stream.will_ask(&SDS, &["A"]);
        stream.send(request);
    } else {
        let mut request = delta(&SDS, &["A"], &[]);
        request.node = node_with(features);
        stream.send(request);
    }
}

/// Every SotW request repeats the names, so the driver denies B again.
fn ack(stream: &mut Stream, reply: &Reply) {
    if stream.is_sotw() {
        stream.session.deny(SDS, "B", denied());
    }
    stream.ack(reply);
}

#[test]
fn tp3_denied_name_gets_one_resource_error() {
    for mut stream in [Stream::sotw(), Stream::delta()] {
        let mut world = World::of(&SDS, &["A=1", "B=1"]);
        ask(&mut stream, &[ERRORS]);
        let first = stream.reply(&world);
        assert_eq!(first.resources, ["A=1"]);
        assert_eq!(
            first.errors,
            [("B".to_owned(), 7, "not for you".to_owned())]
        );
        assert_eq!(first.removed, Vec::<String>::new());
        ack(&mut stream, &first);

        world.set(&SDS, &["A=2", "B=2"]);
        let second = stream.reply(&world);
        assert_eq!(
            (&second.resources[..], second.errors.len()),
            (&["A=2".to_owned()][..], 0)
        );
        ack(&mut stream, &second);
        stream.silent(&world);
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn tp3_client_without_the_feature_gets_a_removal() {
    let world = World::of(&SDS, &["A=1", "B=1"]);
    let mut stream = Stream::delta();
    ask(&mut stream, &[]);
    let replies = stream.drain(&world);
    assert!(replies.iter().all(|reply| reply.errors.is_empty()));
    let removed: Vec<_> = replies.iter().flat_map(|reply| &reply.removed).collect();
    assert_eq!(removed, ["B"], "the same as for a missing name (S-34)");

    let mut stream = Stream::sotw();
    ask(&mut stream, &[]);
    let replies = stream.drain(&world);
    assert_eq!(replies.len(), 1);
    assert_eq!(
        (&*replies[0].resources[0], replies[0].errors.len()),
        ("A=1", 0)
    );
}

#[test]
fn tp3_name_that_is_allowed_again_is_sent() {
    let world = World::of(&SDS, &["A=1", "B=1"]);
    let mut stream = Stream::sotw();
    ask(&mut stream, &[ERRORS]);
    stream.drain(&world);
    stream.ask(&SDS, &["A", "B"]);
    assert_eq!(stream.take(&world).resources, ["B=1"]);
}

/// Given a source with an invalid Z, then the error differs from that of a missing name.
#[test]
fn s73_tp3_invalid_resource_gets_a_resource_error() {
    for mut stream in [Stream::sotw(), Stream::delta()] {
        let mut world = World::of(&EDS, &["A=1"]);
        let fault = "z.yaml:3:7: error: cluster_name: no good";
        world
            .snapshot
            .set_resource_errors([(EDS, "Z".into(), fault.into())]);
        if stream.is_sotw() {
            let mut request = sotw(&EDS, &["A", "Z"]);
            request.node = node_with(&[ERRORS]);
            stream.will_ask(&EDS, &["A", "Z"]);
            stream.send(request);
        } else {
            let mut request = delta(&EDS, &["A", "Z"], &[]);
            request.node = node_with(&[ERRORS]);
            stream.send(request);
        }
        let first = stream.take(&world);
        assert_eq!(first.resources, ["A=1"]);
        assert_eq!(first.errors, [("Z".to_owned(), 13, fault.to_owned())]);
        assert_eq!(first.removed, Vec::<String>::new());

        world.set(&EDS, &["Z=1"]);
        assert_eq!(stream.take(&world).resources, ["Z=1"], "fixed");
        stream.silent(&world);
    }
}

/// SotW cannot report a missing name (S-8), except in `resource_errors`.
#[test]
fn tp3_s8_missing_or_deleted_name_gets_a_resource_error() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    let mut request = sotw(&EDS, &["A", "Z"]);
    request.node = node_with(&[ERRORS]);
    stream.will_ask(&EDS, &["A", "Z"]);
    stream.send(request);
    let first = stream.take(&world);
    assert_eq!(first.resources, ["A=1"]);
    assert_eq!(
        first.errors,
        [("Z".to_owned(), 5, "eds \"Z\" not found".to_owned())]
    );
    stream.silent(&world);

    world.set(&EDS, &["Z=1"]);
    let second = stream.take(&world);
    assert_eq!(
        (&second.resources[..], &second.errors[..]),
        (&["Z=1".to_owned()][..], &[][..])
    );
    world.set(&EDS, &["-A"]);
    let third = stream.take(&world);
    assert_eq!(third.resources, Vec::<String>::new());
    assert_eq!(third.errors[0].0, "A");
    stream.silent(&world);
}
