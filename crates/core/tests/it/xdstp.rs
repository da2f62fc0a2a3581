//! `xdstp` names: canonical names, and collections (xRFC TP1, gRFC A47).

use oxds_core::session::{Event, Interest, StreamError};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::{ResourceType, discovery::ResourceLocator};

use crate::support::{
    Stream, World,
    stream::{delta, sotw},
};

const EDS: ResourceType = ResourceType::ENDPOINT;
const ALL: &str = "xdstp://a/T/shop/*";

fn world() -> World {
    World::of(
        &EDS,
        &[
            "plain=1",
            "xdstp://a/T/shop/x=1",
            "xdstp://a/T/shop/y=1",
            "xdstp://a/T/shop/deep/z=1",
            "xdstp://b/T/shop/x=1",
        ],
    )
}

/// Given a resource under its canonical name. When a client asks for another spelling, then it gets the resource
/// (xRFC TP1, "Normalization").
#[test]
fn c42_every_spelling_of_a_name_gets_the_resource() {
    let world = world_with_context();
    for asked in [
        "xdstp://a/T/x:80?a=1&b=2",
        "xdstp://a/T/x:80?b=2&a=1",
        "xdstp://a/T/%78%3a80?b=2&a=1&a=3",
        "xdstp://a/T/x:80?b=2&a=1#entry=y",
    ] {
        for mut stream in [Stream::sotw(), Stream::delta()] {
            if stream.is_sotw() {
                stream.ask(&EDS, &[asked]);
            } else {
                stream.change(&EDS, &[asked], &[]);
            }
            let now = stream.now;
            let sent = stream.session.poll_transmit(now, &world.snapshot);
            assert_eq!(sent.map(|sent| sent.resources), Some(1), "{asked}");
        }
    }
}

/// Given a resource under its canonical name, when a change set removes another spelling, then the resource is removed.
#[test]
fn c42_every_spelling_of_a_name_removes_the_resource() {
    let world = world_with_context();
    let removal = ChangeSet::default().remove(EDS, "xdstp://a/T/%78:80?b=2&a=1");
    let (_, changes) = world.snapshot.apply(removal);
    assert_eq!(changes.len(), 1);
}

fn world_with_context() -> World {
    let name = "xdstp://a/T/x%3A80?b=2&a=1";
    let resource = Resource::new(EDS, name, name.as_bytes());
    let mut world = World::empty();
    world.snapshot = world
        .snapshot
        .apply(ChangeSet {
            upserts: vec![std::sync::Arc::new(resource)],
            removals: vec![],
        })
        .0;
    world
}

#[test]
fn xdstp_collection_gets_added_and_removed_members() {
    let mut world = world();
    let mut stream = Stream::delta();
    stream.change(&EDS, &[ALL], &[]);
    let watched = Event::Watched(EDS, vec![Interest::All, Interest::Name(ALL.into())]);
    assert!(
        stream.events().contains(&watched),
        "a member may have any name"
    );
    let first = stream.take(&world);
    assert_eq!(
        first.resources,
        ["xdstp://a/T/shop/x=1", "xdstp://a/T/shop/y=1"]
    );
    assert_eq!(first.removed, Vec::<String>::new());

    world.set(
        &EDS,
        &[
            "xdstp://a/T/shop/new=1",
            "xdstp://a/T/shop/x=2",
            "-xdstp://a/T/shop/y",
            "plain=2",
        ],
    );
    let second = stream.take(&world);
    assert_eq!(
        second.resources,
        ["xdstp://a/T/shop/new=1", "xdstp://a/T/shop/x=2"]
    );
    assert_eq!(second.removed, ["xdstp://a/T/shop/y"]);
    assert!(stream.session.is_in_sync(&world.snapshot));

    stream.change(&EDS, &[ALL], &[]);
    assert_eq!(
        stream.take(&world).resources.len(),
        2,
        "subscribed again (S-35)"
    );
    stream.change(&EDS, &[], &[ALL]);
    let unwatched = Event::Unwatched(EDS, vec![Interest::All, Interest::Name(ALL.into())]);
    assert!(stream.events().contains(&unwatched));
    world.set(&EDS, &["xdstp://a/T/shop/x=3"]);
    stream.silent(&world);
    assert_eq!(
        stream.session.footprint(),
        0,
        "the session has no state of the collection"
    );
}

#[test]
fn xdstp_collection_without_members_is_missing() {
    let mut world = World::empty();
    let mut stream = Stream::delta();
    stream.change(&EDS, &[ALL], &[]);
    assert_eq!(stream.take(&world).removed, [ALL]);
    world.set(&EDS, &["xdstp://a/T/shop/x=1"]);
    let reply = stream.take(&world);
    assert_eq!(
        (&reply.resources[..], reply.removed.len()),
        (&["xdstp://a/T/shop/x=1".to_owned()][..], 0)
    );
}

#[test]
fn xdstp_collection_resumes_from_initial_versions() {
    let world = world();
    let mut stream = Stream::delta();
    let has = [("x", "xdstp://a/T/shop/x=1"), ("gone", "old")].map(|(name, text)| {
        let version = oxds_types::Version::of(text.as_bytes()).to_string();
        (format!("xdstp://a/T/shop/{name}"), version)
    });
    stream.resume(&EDS, &[ALL], &has);
    let reply = stream.take(&world);
    assert_eq!(
        reply.resources,
        ["xdstp://a/T/shop/y=1"],
        "the client has x"
    );
    assert_eq!(reply.removed, ["xdstp://a/T/shop/gone"]);
}

#[test]
fn xdstp_named_member_stays_without_its_collection() {
    let mut world = world();
    let mut stream = Stream::delta();
    stream.change(&EDS, &[ALL, "xdstp://a/T/shop/x"], &[]);
    assert_eq!(stream.take(&world).resources.len(), 2);
    stream.change(&EDS, &[], &[ALL]);
    stream.silent(&world);
    world.set(&EDS, &["xdstp://a/T/shop/x=2", "xdstp://a/T/shop/y=2"]);
    assert_eq!(stream.take(&world).resources, ["xdstp://a/T/shop/x=2"]);

    stream.change(&EDS, &[ALL], &["xdstp://a/T/shop/x"]);
    let sent = stream.take(&world);
    assert_eq!(
        sent.resources,
        ["xdstp://a/T/shop/x=2", "xdstp://a/T/shop/y=2"]
    );
}

/// A SotW response does not tell which resources belong to a collection (xRFC TP1).
#[test]
fn sotw_request_for_a_collection_is_denied() {
    let mut stream = Stream::sotw();
    let error = stream.try_send(sotw(&EDS, &["plain", ALL])).unwrap_err();
    assert_eq!(error, StreamError::CollectionInSotw(ALL.into()));
    assert!(error.to_string().contains("delta"), "{error}");
}

/// Parameters select among variants of a resource, which do not exist here: an answer would look like a match (TP2).
#[test]
fn dynamic_parameters_are_denied() {
    let locator = |parameters: &[(&str, &str)]| ResourceLocator {
        name: "plain".into(),
        dynamic_parameters: parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    };
    let world = world();
    for parameters in [&[][..], &[("env", "prod")]] {
        for mut stream in [Stream::sotw(), Stream::delta()] {
            let sent = if stream.is_sotw() {
                let mut request = sotw(&EDS, &[]);
                request.resource_locators = vec![locator(parameters)];
                stream.try_send(request)
            } else {
                let mut request = delta(&EDS, &[], &[]);
                request.resource_locators_subscribe = vec![locator(parameters)];
                stream.try_send(request)
            };
            if parameters.is_empty() {
                assert_eq!(sent, Ok(()));
                assert_eq!(stream.reply(&world).resources, ["plain=1"]);
            } else {
                assert_eq!(sent, Err(StreamError::DynamicParameters("plain".into())));
            }
        }
    }
}
