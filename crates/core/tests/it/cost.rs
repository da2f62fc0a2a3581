//! Cost of changes, counted and not timed: P-1 … P-5, P-7, P-8, P-10, P-11, P-13.

use oxds_core::snapshot::{ChangeSet, Limits, WorkCounts};
use oxds_types::ResourceType;

use crate::support::{Edit, Stream, World};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// Returns a world with `size` resources of a type.
fn large(resource_type: &ResourceType, size: usize) -> World {
    let mut world = World::empty();
    let edit = (0..size).fold(Edit::default(), |edit, n| {
        edit.set(resource_type, &format!("N{n:06}=0"))
    });
    world.apply(edit);
    world
}

fn wildcard(world: &World, is_delta: bool) -> Stream {
    let mut stream = if is_delta {
        Stream::delta()
    } else {
        Stream::sotw()
    };
    if is_delta {
        stream.change(&CDS, &[], &[]);
    } else {
        stream.ask(&CDS, &[]);
    }
    stream.drain(world);
    stream.events();
    stream
}

fn counted(world: &mut World, act: impl FnOnce(&mut World)) -> WorkCounts {
    let before = world.snapshot.counters().read();
    act(world);
    world.snapshot.counters().read() - before
}

#[test]
fn p1_cost_of_a_change_does_not_depend_on_the_size() {
    let cost = |size: usize| {
        let mut world = large(&CDS, size);
        let mut stream = wildcard(&world, true);
        counted(&mut world, |world| {
            for n in 0..10 {
                world.set(&CDS, &[&format!("N000007={}", n + 1)]);
                assert_eq!(stream.take(world).resources.len(), 1);
            }
        })
    };
    let costs = [1_000, 10_000, 100_000].map(cost);
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
    assert_eq!((costs[0].hashes, costs[0].encodes), (10, 10));
    assert!(costs[0].visits <= 30, "{costs:?}");
}

#[test]
fn p2_thousand_sessions_share_one_encoding() {
    let mut world = large(&CDS, 100);
    let mut streams: Vec<_> = (0..1000).map(|_| wildcard(&world, true)).collect();
    assert_eq!(
        world.snapshot.counters().read().encodes,
        1,
        "one encoding of all resources, for all sessions"
    );
    let cost = counted(&mut world, |world| {
        world.set(&CDS, &["N000007=1"]);
        for stream in &mut streams {
            assert_eq!(stream.take(world).resources, ["N000007=1"]);
        }
    });
    assert_eq!((cost.hashes, cost.encodes), (1, 1), "{cost:?}");
    assert!(cost.visits <= 3, "{cost:?}");
}

/// A push allocates twice per stream: for the fields that are not shared, and for the piece that has them.
#[test]
fn p3_push_takes_two_allocations_per_stream() {
    for (resource_type, names) in [(EDS, &["N000007"][..]), (CDS, &[])] {
        for open in [Stream::sotw, Stream::delta] {
            pushes_are_cheap(&resource_type, names, open);
        }
    }
}

fn pushes_are_cheap(resource_type: &ResourceType, names: &[&str], open: fn() -> Stream) {
    let mut world = large(resource_type, 10);
    let [mut first, mut stream] = [open(), open()];
    for stream in [&mut first, &mut stream] {
        if stream.is_sotw() {
            stream.ask(resource_type, names);
        } else {
            stream.change(resource_type, names, &[]);
        }
        stream.drain(&world);
        stream.events();
    }
    for change in 1..10 {
        world.set(resource_type, &[&format!("N000007={change}")]);
        // The first stream makes the shared parts.
        first.take(&world);
        let mut nonce = None;
        let took = allocation_counter::measure(|| {
            let sent = stream.session.poll_transmit(stream.now, &world.snapshot);
            let mut sent = sent.expect("a push");
            while let Some(piece) = sent.frame.next_piece(16 << 10) {
                drop(piece);
            }
            nonce = Some(sent.nonce);
        });
        // The first pushes allocate buffers that are reused.
        assert!(
            took.count_total <= 2 || change < 3,
            "{resource_type}, {change}: {took:?}"
        );
        let nonce = nonce.expect("a push").to_string();
        stream.ack_nonce(resource_type, &nonce);
        stream.events();
    }
}

#[test]
fn p5_sotw_wildcard_response_exists_once() {
    let mut world = large(&CDS, 1000);
    let mut streams: Vec<_> = (0..100).map(|_| wildcard(&world, false)).collect();
    world.set(&CDS, &["N000007=1"]);
    let bodies: Vec<_> = streams
        .iter_mut()
        .map(|stream| {
            let transmit = stream
                .session
                .poll_transmit(stream.now, &world.snapshot)
                .unwrap();
            let body = transmit
                .frame
                .shared()
                .max_by_key(|part| part.len())
                .unwrap()
                .clone();
            assert!(
                transmit.frame.len() - body.len() < 100,
                "only the other fields are not shared"
            );
            body
        })
        .collect();
    assert!(
        bodies
            .iter()
            .all(|body| body.as_ptr() == bodies[0].as_ptr()),
        "all bodies are shared"
    );
}

#[test]
fn p4_session_visits_only_its_own_names() {
    let mut world = large(&EDS, 10_000);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["N000001", "N000002"]);
    stream.drain(&world);
    // The session is not polled during ten thousand changes of other names.
    for n in 0..10_000 {
        world.set(&EDS, &[&format!("N{n:06}=1")]);
    }
    let cost = counted(&mut world, |world| {
        assert_eq!(stream.take(world).resources, ["N000001=1", "N000002=1"]);
    });
    assert!(cost.visits < 10 && cost.encodes == 0, "{cost:?}");
}

/// Memory of a session per name that its client has: three words, and a small constant.
#[test]
fn p7_name_that_a_client_has_takes_three_words() {
    let world = large(&EDS, 1_000);
    let names: Vec<String> = (0..1_000).map(|n| format!("N{n:06}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ask = |stream: &mut Stream| {
        stream.change(&EDS, &names, &[]);
        stream.drain(&world);
        stream.events();
    };
    // The first stream makes the shared parts.
    ask(&mut Stream::delta());
    let mut stream = Stream::delta();
    let took = allocation_counter::measure(|| ask(&mut stream));
    assert_eq!(stream.session.names(&EDS).count(), 1_000);
    let most = (3 * size_of::<usize>() * names.len()) as i64 + 8_192;
    assert!(took.bytes_current < most, "{took:?}");
}

#[test]
fn p8_wildcard_in_sync_has_no_memory_per_resource() {
    let footprint = |size: usize, is_delta: bool| {
        let mut world = large(&CDS, size);
        let mut stream = wildcard(&world, is_delta);
        world.set(&CDS, &["N000007=1", "-N000008", "new=1"]);
        stream.take(&world);
        stream.events();
        stream.session.footprint()
    };
    for is_delta in [false, true] {
        assert_eq!(
            [10, 100, 10_000].map(|size| footprint(size, is_delta)),
            [0, 0, 0]
        );
    }
}

#[test]
fn p10_stalled_client_has_constant_memory() {
    let mut world = large(&CDS, 100);
    let mut stream = wildcard(&world, true);
    world.set(&CDS, &["N000001=1"]);
    stream.reply(&world);
    let footprint = stream.session.footprint();
    for n in 0..1000 {
        world.set(&CDS, &[&format!("N{:06}={n}", n % 100)]);
        stream.silent(&world);
    }
    assert_eq!(stream.session.footprint(), footprint);
}

#[test]
fn sessions_at_the_same_cursor_share_one_encoding() {
    let mut world = large(&CDS, 100);
    let mut streams: Vec<_> = (0..100).map(|_| wildcard(&world, true)).collect();
    for n in 0..50 {
        world.set(&CDS, &[&format!("N{n:06}=1")]);
    }
    let cost = counted(&mut world, |world| {
        for stream in &mut streams {
            assert_eq!(stream.take(world).resources.len(), 50);
        }
    });
    assert_eq!(cost.encodes, 1);
    assert!(cost.visits <= 100, "{cost:?}");
}

#[test]
fn difference_of_maps_equals_the_trimmed_log() {
    for log_names in [0, 3, 1000] {
        let limits = Limits {
            log_names,
            ..Limits::default()
        };
        let mut world = World::with_limits(limits);
        world.set(&CDS, &["A=1", "B=1", "C=1", "D=1"]);
        let mut all = wildcard(&world, true);
        let mut some = Stream::delta();
        some.change(&CDS, &["A", "C", "E"], &[]);
        some.drain(&world);
        for texts in [["A=2", "E=1"], ["-B", "C=2"], ["C=1", "D=2"], ["-F", "E=2"]] {
            world.set(&CDS, &texts);
        }
        let reply = all.take(&world);
        assert_eq!(reply.resources, ["A=2", "D=2", "E=2"], "C was reverted");
        assert_eq!(reply.removed, ["B"]);
        assert_eq!(some.take(&world).resources, ["A=2", "E=2"]);
    }
}

#[test]
fn p11_replacing_all_with_one_change_is_one_change() {
    let mut world = large(&CDS, 1000);
    let mut stream = wildcard(&world, true);
    let edit = (0..1000).fold(Edit::default(), |edit, n| {
        let content = usize::from(n == 7);
        edit.set(&CDS, &format!("N{n:06}={content}"))
    });
    assert_eq!(world.apply(edit).len(), 1);
    assert_eq!(stream.take(&world).resources, ["N000007=1"]);
    // An empty change set does not change the revision.
    let (same, changed) = world.snapshot.apply(ChangeSet::default());
    assert!(changed.is_empty() && same.revision() == world.snapshot.revision());
}

#[test]
fn p13_nacked_resource_is_sent_once_per_client() {
    let mut world = large(&CDS, 100);
    let mut streams: Vec<_> = (0..200).map(|n| wildcard(&world, n % 2 == 0)).collect();
    world.set(&CDS, &["N000007=poison"]);
    let mut sent = 0;
    let mut poisoned = |reply: &crate::support::stream::Reply| {
        sent += reply
            .resources
            .iter()
            .filter(|text| *text == "N000007=poison")
            .count();
    };
    for stream in &mut streams {
        let reply = stream.reply(&world);
        poisoned(&reply);
        stream.nack(&reply, "cluster N000007: no good");
        stream.silent(&world);
    }
    for n in 0..5 {
        world.set(&CDS, &[&format!("N000001={n}x")]);
        for stream in &mut streams {
            stream.drain(&world).iter().for_each(&mut poisoned);
        }
    }
    assert_eq!(sent, 200);
}
