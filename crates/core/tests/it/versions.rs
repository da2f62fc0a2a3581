//! v2 clients next to v3 clients: S-62, S-63.

use oxds_types::{ApiVersion, ResourceType};

use crate::support::{
    Edit, Stream, World,
    stream::{delta, sotw},
};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// Encodes a message whose first field is the text. The test resources are named by their content up to `=`, so the
/// name begins with the key and the length of the field.
fn encoded(text: &str) -> String {
    format!("\n{}{text}", char::from(u8::try_from(text.len()).unwrap()))
}

/// Encodes the same message with a field 15, which v2 does not have.
fn encoded_v3_only(text: &str) -> String {
    format!("{}z\0", encoded(text))
}

fn name(text: &str) -> String {
    let text = encoded(text);
    text.split_once('=').unwrap().0.to_owned()
}

fn v2(resource_type: &ResourceType) -> String {
    resource_type
        .type_url_in(ApiVersion::V2)
        .unwrap()
        .to_owned()
}

/// Opens a v2 stream, subscribed to all resources of a type or to some names.
fn v2_client(is_delta: bool, resource_type: &ResourceType, names: &[&str]) -> Stream {
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

/// Opens a v3 stream, subscribed to all resources of a type.
fn v3_client(is_delta: bool, resource_type: &ResourceType) -> Stream {
    let mut stream = if is_delta {
        Stream::delta()
    } else {
        Stream::sotw()
    };
    if is_delta {
        stream.change(resource_type, &[], &[]);
    } else {
        stream.ask(resource_type, &[]);
    }
    stream
}

fn set(world: &mut World, resource_type: &ResourceType, texts: &[String]) {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    world.set(resource_type, &texts);
}

/// Given v2 clients with a wildcard and with names, over SotW and delta, then responses and resources are v2, with the
/// resource versions of v3 clients.
#[test]
fn s1_s62_responses_have_the_version_of_the_request() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[encoded("A=1")]);
    set(&mut world, &EDS, &[encoded("A=1")]);
    for is_delta in [false, true] {
        let new = v3_client(is_delta, &CDS).take(&world);
        for (resource_type, names) in [(CDS, &[][..]), (EDS, &[&*name("A=1")])] {
            // `Reply::decode` checks that the type URLs inside agree.
            let reply = v2_client(is_delta, &resource_type, names).take(&world);
            assert_eq!(
                (reply.type_url, reply.resources),
                (v2(&resource_type), vec![encoded("A=1")])
            );
            assert_eq!(
                reply.names,
                if is_delta { new.names.clone() } else { vec![] }
            );
            assert!(resource_type != CDS || reply.version == new.version);
        }
    }
}

/// Given two clusters, and v2 and v3 clients. When one cluster uses a field that v2 lacks, then v2 clients lose only
/// this cluster, and v3 clients keep both. When the field is removed again, then v2 clients get the cluster back.
#[test]
fn s63_not_representable_resource_is_withheld_from_v2() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[encoded("A=1"), encoded("B=1")]);
    let [mut old_sotw, mut old_delta] =
        [false, true].map(|is_delta| v2_client(is_delta, &CDS, &[]));
    let [mut new_sotw, mut new_delta] = [false, true].map(|is_delta| v3_client(is_delta, &CDS));
    for stream in [&mut old_sotw, &mut old_delta, &mut new_sotw, &mut new_delta] {
        assert_eq!(
            stream.take(&world).resources,
            [encoded("A=1"), encoded("B=1")]
        );
    }

    set(&mut world, &CDS, &[encoded_v3_only("B=1")]);
    assert_eq!(
        new_sotw.take(&world).resources,
        [encoded("A=1"), encoded_v3_only("B=1")]
    );
    assert_eq!(new_delta.take(&world).resources, [encoded_v3_only("B=1")]);
    assert_eq!(old_sotw.take(&world).resources, [encoded("A=1")]);
    assert_eq!(old_delta.take(&world).removed, [name("B=1")]);
    let withheld: Vec<_> = world.snapshot.of_type(&CDS).not_representable().collect();
    let [(name_withheld, reasons)] = &*withheld else {
        panic!("{withheld:?}");
    };
    assert_eq!(
        (&***name_withheld, &*reasons[0].path),
        (&*name("B=1"), "15")
    );

    // A change of the withheld cluster causes no response to v2 clients.
    set(&mut world, &CDS, &[encoded_v3_only("B=2")]);
    assert_eq!(new_delta.take(&world).resources, [encoded_v3_only("B=2")]);
    old_sotw.silent(&world);
    old_delta.silent(&world);
    assert!(old_sotw.session.is_in_sync(&world.snapshot));

    set(&mut world, &CDS, &[encoded("B=2")]);
    assert_eq!(
        old_sotw.take(&world).resources,
        [encoded("A=1"), encoded("B=2")]
    );
    assert_eq!(old_delta.take(&world).resources, [encoded("B=2")]);
    assert_eq!(world.snapshot.of_type(&CDS).not_representable().count(), 0);
}

/// Given two names, of which v2 cannot express one, then a v2 client gets this one reported as missing.
#[test]
fn s63_withheld_name_is_reported_as_missing() {
    let mut world = World::empty();
    set(&mut world, &EDS, &[encoded("A=1"), encoded_v3_only("B=1")]);
    let mut stream = v2_client(true, &EDS, &[&name("A=1"), &name("B=1")]);
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec![encoded("A=1")], vec![name("B=1")])
    );
    let mut stream = v2_client(false, &EDS, &[&name("A=1"), &name("B=1")]);
    assert_eq!(stream.take(&world).resources, [encoded("A=1")]);
}

/// Given a v2 client in sync with a snapshot that later snapshots have no v2 log of, when a resource changes, then the
/// client gets the difference.
#[test]
fn s62_v2_client_behind_the_log_gets_the_difference() {
    let mut world = World::empty();
    set(&mut world, &CDS, &[encoded("A=1"), encoded("B=1")]);
    let before = world.snapshot.clone();
    set(&mut world, &CDS, &[encoded("B=2")]);
    // The client still sees the earlier snapshot, whose v2 form the later one does not have.
    let after = std::mem::replace(&mut world.snapshot, before);
    let mut stream = v2_client(true, &CDS, &[]);
    assert_eq!(
        stream.take(&world).resources,
        [encoded("A=1"), encoded("B=1")]
    );
    world.snapshot = after;
    assert_eq!(stream.take(&world).resources, [encoded("B=2")]);
}

/// Given many clusters and a v2 client in sync, when one cluster changes, then the cost is that of one cluster.
#[test]
fn s62_cost_of_a_change_does_not_depend_on_the_size() {
    let visits = |size: usize| {
        let mut world = World::empty();
        let edit = (0..size).fold(Edit::default(), |edit, n| {
            edit.set(&CDS, &encoded(&format!("N{n:06}=0")))
        });
        world.apply(edit);
        let mut stream = v2_client(true, &CDS, &[]);
        stream.drain(&world);
        let before = world.snapshot.counters().read();
        set(&mut world, &CDS, &[encoded("N000007=1")]);
        assert_eq!(stream.take(&world).resources.len(), 1);
        world.snapshot.counters().read() - before
    };
    let [few, many] = [1_000, 20_000].map(visits);
    assert_eq!(few, many);
    assert_eq!((few.hashes, few.encodes), (1, 1));
    assert!(few.visits <= 4, "{few:?}");
}
