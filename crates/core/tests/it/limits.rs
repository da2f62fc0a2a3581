//! Malformed requests and limits: S-58 … S-60.

use oxds_core::{
    session::{Config, Event, Request, Scope, StreamError, UnknownTypes},
    snapshot::Protocol,
};
use oxds_types::ResourceType;

use crate::support::{
    Stream, World, configured,
    stream::{delta, sotw},
};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

fn aggregated(config: Config) -> Stream {
    Stream::open(Protocol::Sotw, Scope::Aggregated, config)
}

#[test]
fn s58_aggregated_request_needs_a_type_url() {
    let mut stream = Stream::sotw();
    let mut request = sotw(&CDS, &[]);
    request.type_url = String::new();
    assert_eq!(stream.try_send(request), Err(StreamError::MissingTypeUrl));
    let mut request = sotw(&CDS, &[]);
    request.type_url = "garbage".into();
    assert_eq!(
        stream.try_send(request),
        Err(StreamError::MalformedTypeUrl("garbage".into()))
    );
}

#[test]
fn s58_stream_of_one_type_denies_other_types() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::open(Protocol::Sotw, Scope::Single(CDS), Config::default());
    let error = stream.try_send(sotw(&EDS, &["A"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "wrong type_url {:?}: this stream serves cds",
            EDS.type_url()
        )
    );
    // A request without a type URL is for the type of the stream.
    let mut request = sotw(&CDS, &[]);
    request.type_url = String::new();
    stream.send(request);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
}

#[test]
fn s59_unknown_type_gets_an_empty_response() {
    let mut world = World::of(&CDS, &["A=1"]);
    let (thing, _) = ResourceType::from_message("acme.v1.Thing");
    for is_delta in [false, true] {
        let mut stream = if is_delta {
            Stream::delta()
        } else {
            Stream::sotw()
        };
        if is_delta {
            stream.change(&thing, &["x"], &[]);
            stream.change(&CDS, &[], &[]);
        } else {
            stream.ask(&thing, &["x"]);
            stream.ask(&CDS, &[]);
        }
        assert!(stream.events().contains(&Event::UnknownType(thing.clone())));
        let replies = stream.poll(&world);
        assert_eq!(replies.len(), 2);
        assert_eq!(replies[0].resources, ["A=1"]);
        assert_eq!(
            (replies[1].type_url.as_str(), replies[1].resources.len()),
            (thing.type_url(), 0)
        );
        replies.iter().for_each(|reply| stream.ack(reply));
        stream.silent(&world);
        // If the first resource of the type arrives, it is sent (S-61).
        world.set(&thing, &["x=1"]);
        assert_eq!(stream.take(&world).resources, ["x=1"]);
        world.set(&thing, &["-x"]);
    }
}

#[test]
fn s59_configured_type_is_known_without_resources() {
    let quota = ResourceType::from_message("acme.v1.Quota").0;
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = aggregated(configured(|config| {
        config.unknown_types = UnknownTypes::EndStream;
        config.own_types = [quota.clone()].into();
    }));
    stream.send(sotw(&quota, &["gold"]));
    assert!(!stream.events().contains(&Event::UnknownType(quota.clone())));
    world.set(&quota, &["gold=1"]);
    assert_eq!(stream.take(&world).resources, ["gold=1"]);
}

#[test]
fn s59_unknown_type_can_be_an_error() {
    let mut stream = aggregated(configured(|config| {
        config.unknown_types = UnknownTypes::EndStream;
    }));
    let (thing, _) = ResourceType::from_message("acme.v1.Thing");
    let refused = Err(StreamError::UnknownType(thing.type_url().into()));
    assert_eq!(stream.try_send(sotw(&thing, &[])), refused);
}

#[test]
fn s60_names_are_limited_in_number_and_length() {
    let config = || {
        configured(|config| {
            config.max_names = 3;
            config.max_name_len = 100;
        })
    };
    let many = StreamError::TooManyNames {
        resource_type: EDS,
        limit: 3,
    };
    let long = StreamError::NameTooLong {
        resource_type: EDS,
        len: 101,
        limit: 100,
    };
    let name = "n".repeat(101);

    let mut stream = aggregated(config());
    stream.send(sotw(&EDS, &["a", "b", "c"]));
    assert_eq!(
        stream.try_send(sotw(&EDS, &["a", "b", "c", "d"])),
        Err(many.clone())
    );
    assert_eq!(stream.try_send(sotw(&EDS, &[&name])), Err(long.clone()));

    let mut stream = Stream::open(Protocol::Delta, Scope::Aggregated, config());
    stream.send(delta(&EDS, &["a", "b"], &[]));
    stream.send(delta(&EDS, &["c"], &[]));
    assert_eq!(stream.try_send(delta(&EDS, &["d"], &[])), Err(many));
    assert_eq!(stream.try_send(delta(&EDS, &[], &[&name])), Err(long));
}

#[test]
fn s60_type_url_is_limited_to_the_length_of_a_name() {
    let mut stream = aggregated(configured(|config| config.max_name_len = 8));
    let (len, limit) = (EDS.type_url().len(), 8);
    let long = StreamError::TypeUrlTooLong { len, limit };
    assert_eq!(stream.try_send(sotw(&EDS, &[])), Err(long));
}

#[test]
fn s60_types_are_limited_in_number() {
    let mut stream = aggregated(configured(|config| config.max_types = 2));
    stream.send(sotw(&CDS, &[]));
    stream.send(sotw(&EDS, &["A"]));
    let error = stream.try_send(sotw(&ResourceType::LISTENER, &[]));
    assert_eq!(error, Err(StreamError::TooManyTypes { limit: 2 }));
}

#[test]
fn s60_flood_of_requests_gets_few_responses() {
    let mut world = World::empty();
    let texts: Vec<String> = (0..1000).map(|n| format!("N{n}=1")).collect();
    world.set(&EDS, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut stream = Stream::delta();
    let mut replies = 0;
    for n in 0..1000 {
        stream.change(&EDS, &[&format!("N{n}")], &[]);
        replies += stream.poll(&world).len();
    }
    assert!(replies <= 4, "{replies} responses without an ACK");
}

#[test]
fn request_of_the_other_variant_is_an_error() {
    let mut stream = Stream::sotw();
    let request = Request::Delta(delta(&CDS, &[], &[]));
    assert_eq!(stream.try_send(request), Err(StreamError::WrongProtocol));
}

#[test]
fn long_nack_reason_is_cut() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    let reply = stream.reply(&world);
    stream.nack(&reply, &"x".repeat(1_000_000));
    assert!(
        stream.session.status()[0]
            .nack
            .as_ref()
            .unwrap()
            .reason
            .len()
            <= 4096
    );
}
