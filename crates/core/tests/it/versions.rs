//! Clients of v2 beside those of v3: S-62, S-63.

use oxds_types::{ApiVersion, ResourceType};

use crate::support::{
    Edit, Stream, World,
    stream::{delta, sotw},
};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// A text that is a message besides, whose first field is the text; so its name begins with what the length is.
fn said(text: &str) -> String {
    format!("\n{}{text}", char::from(u8::try_from(text.len()).unwrap()))
}

/// The same with a field 15, which v2 has not.
fn new(text: &str) -> String {
    format!("{}z\0", said(text))
}

fn name(text: &str) -> String {
    let said = said(text);
    said.split_once('=').unwrap().0.to_owned()
}

fn v2(resource_type: &ResourceType) -> String {
    resource_type
        .type_url_in(ApiVersion::V2)
        .unwrap()
        .to_owned()
}

/// A client of v2 that asks for all of a kind, or for these.
fn client(is_delta: bool, resource_type: &ResourceType, names: &[&str]) -> Stream {
    if is_delta {
        let mut stream = Stream::delta();
        let mut request = delta(resource_type, names, &[]);
        request.type_url = v2(resource_type);
        stream.send(request);
        stream
    } else {
        let mut stream = Stream::sotw();
        let mut request = sotw(resource_type, names);
        request.type_url = v2(resource_type);
        stream.will_ask(resource_type, names);
        stream.send(request);
        stream
    }
}

/// The same of v3.
fn current(is_delta: bool, resource_type: &ResourceType) -> Stream {
    let mut stream = if is_delta {
        Stream::delta()
    } else {
        Stream::sotw()
    };
    match is_delta {
        true => stream.change(resource_type, &[], &[]),
        false => stream.ask(resource_type, &[]),
    }
    stream
}

fn set(world: &mut World, resource_type: &ResourceType, texts: &[String]) {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    world.set(resource_type, &texts);
}

/// Given clients of v2 that ask for everything, and by name, SotW and delta, then each is answered in v2, the resources
/// too, at the version that clients of v3 see.
#[test]
fn s1_s62_a_stream_is_answered_in_the_version_it_was_asked_in() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[said("A=1")]);
    set(&mut world, &EDS, &[said("A=1")]);
    for is_delta in [false, true] {
        let new = current(is_delta, &CDS).take(&world);
        for (resource_type, names) in [(CDS, &[][..]), (EDS, &[&*name("A=1")])] {
            // `Reply::decode` checks that the type URLs inside agree.
            let reply = client(is_delta, &resource_type, names).take(&world);
            assert_eq!(
                (reply.type_url, reply.resources),
                (v2(&resource_type), vec![said("A=1")])
            );
            assert_eq!(
                reply.names,
                if is_delta { new.names.clone() } else { vec![] }
            );
            assert!(resource_type != CDS || reply.version == new.version);
        }
    }
}

/// Given two clusters and a client of v2 of each protocol; when one of them begins to use what v2 lacks, then they lose
/// it and hear of nothing else, while clients of v3 have both; when it stops to, they have it back.
#[test]
fn s63_what_v2_cannot_say_is_withheld_and_the_rest_is_served() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[said("A=1"), said("B=1")]);
    let [mut old_sotw, mut old_delta] = [false, true].map(|is_delta| client(is_delta, &CDS, &[]));
    let [mut new_sotw, mut new_delta] = [false, true].map(|is_delta| current(is_delta, &CDS));
    for stream in [&mut old_sotw, &mut old_delta, &mut new_sotw, &mut new_delta] {
        assert_eq!(stream.take(&world).resources, [said("A=1"), said("B=1")]);
    }

    set(&mut world, &CDS, &[new("B=1")]);
    assert_eq!(new_sotw.take(&world).resources, [said("A=1"), new("B=1")]);
    assert_eq!(new_delta.take(&world).resources, [new("B=1")]);
    assert_eq!(old_sotw.take(&world).resources, [said("A=1")]);
    assert_eq!(old_delta.take(&world).removed, [name("B=1")]);
    let withheld: Vec<_> = world.snapshot.of_type(&CDS).withheld().collect();
    let [(withheld, obstacles)] = &*withheld else {
        panic!("{withheld:?}");
    };
    assert_eq!((&***withheld, &*obstacles[0].path), (&*name("B=1"), "15"));

    // A change of what they do not see is no news to them.
    set(&mut world, &CDS, &[new("B=2")]);
    assert_eq!(new_delta.take(&world).resources, [new("B=2")]);
    old_sotw.silent(&world);
    old_delta.silent(&world);
    assert!(old_sotw.session.is_in_sync(&world.snapshot));

    set(&mut world, &CDS, &[said("B=2")]);
    assert_eq!(old_sotw.take(&world).resources, [said("A=1"), said("B=2")]);
    assert_eq!(old_delta.take(&world).resources, [said("B=2")]);
    assert_eq!(world.snapshot.of_type(&CDS).withheld().count(), 0);
}

/// Given names of which one cannot be said in v2, then the client that asks for them hears that this one does not exist.
#[test]
fn s63_a_name_that_is_withheld_does_not_exist() {
    let mut world = World::empty();
    set(&mut world, &EDS, &[said("A=1"), new("B=1")]);
    let mut stream = client(true, &EDS, &[&name("A=1"), &name("B=1")]);
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec![said("A=1")], vec![name("B=1")])
    );
    let mut stream = client(false, &EDS, &[&name("A=1"), &name("B=1")]);
    assert_eq!(stream.take(&world).resources, [said("A=1")]);
}

/// Given two streams that came before anything was translated, and a change before the second asks, then what was made
/// at the first goes on, and a client whose state is older than what is known is still told all.
#[test]
fn s62_a_client_of_a_state_that_is_forgotten_is_told_what_differs() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[said("A=1"), said("B=1")]);
    let before = world.snapshot.clone();
    set(&mut world, &CDS, &[said("B=2")]);
    // The first client still sees the snapshot before, of which the one after knows nothing.
    let after = std::mem::replace(&mut world.snapshot, before);
    let mut stream = client(true, &CDS, &[]);
    assert_eq!(stream.take(&world).resources, [said("A=1"), said("B=1")]);
    world.snapshot = after;
    assert_eq!(stream.take(&world).resources, [said("B=2")]);
}

/// Given many clusters and a client of v2 that has them; when one changes, then as much is done as for that one.
#[test]
fn s62_a_change_costs_what_it_costs_in_v3_twice() {
    let visits = |size: usize| {
        let mut world = World::empty();
        let edit = (0..size).fold(Edit::default(), |edit, n| {
            edit.set(&CDS, &said(&format!("N{n:06}=0")))
        });
        world.apply(edit);
        let mut stream = client(true, &CDS, &[]);
        stream.drain(&world);
        let before = world.snapshot.counters().read();
        set(&mut world, &CDS, &[said("N000007=1")]);
        assert_eq!(stream.take(&world).resources.len(), 1);
        world.snapshot.counters().read() - before
    };
    let [few, many] = [1_000, 20_000].map(visits);
    assert_eq!(few, many);
    assert_eq!((few.hashes, few.encodes), (1, 1));
    assert!(few.visits <= 4, "{few:?}");
}
