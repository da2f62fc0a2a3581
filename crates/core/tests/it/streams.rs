//! Streams: control plane identifier, frames, status, interests.

use std::time::Duration;

use bytes::Buf;
use oxds_core::{
    session::{Event, Frame, Interest, Scope},
    snapshot::Protocol,
};
use oxds_types::ResourceType;

use crate::support::{Stream, World, configured};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

#[test]
fn s65_every_response_has_the_replica_identifier() {
    let world = World::of(&CDS, &["A=1"]);
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let config = configured(|config| config.identifier = Some("replica-7".into()));
        let mut stream = Stream::open(protocol, Scope::Aggregated, config);
        match protocol {
            Protocol::Sotw => stream.ask(&CDS, &[]),
            Protocol::Delta => stream.change(&CDS, &[], &[]),
        }
        assert_eq!(stream.take(&world).identifier.as_deref(), Some("replica-7"));
    }
}

#[test]
fn frame_reads_as_one_grpc_message() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    let frame = stream
        .session
        .poll_transmit(stream.now, &world.snapshot)
        .unwrap()
        .frame;

    let whole = frame.clone().copy_to_bytes(frame.remaining());
    assert_eq!(whole[0], 0, "not compressed");
    assert_eq!(
        u32::from_be_bytes(whole[1..5].try_into().unwrap()) as usize,
        whole.len() - 5
    );
    assert_eq!(whole.slice(5..), frame.message());

    let mut slices = [std::io::IoSlice::new(&[]); 8];
    let count = frame.chunks_vectored(&mut slices);
    let gathered: Vec<u8> = slices[..count]
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    assert_eq!(gathered, whole);

    let mut byte_by_byte = frame.clone();
    let mut read = Vec::new();
    while byte_by_byte.has_remaining() {
        read.push(byte_by_byte.get_u8());
    }
    assert_eq!(read, whole);
    assert!(byte_by_byte.is_empty() && Frame::default().is_empty());
}

/// Small parts are copied into one piece; a large part is written without a copy.
#[test]
fn frame_is_written_in_few_pieces() {
    let large = format!("L={}", "x".repeat(1000));
    let world = World::of(&EDS, &["A=1", "B=1", &large, "Z=1"]);
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A", "B", "L", "Z"], &[]);
    let transmit = stream
        .session
        .poll_transmit(stream.now, &world.snapshot)
        .unwrap();
    let whole = transmit.frame.clone().copy_to_bytes(transmit.frame.len());
    for (limit, pieces) in [(1000, 3), (1 << 20, 1), (100, 5)] {
        let mut frame = transmit.frame.clone();
        let shared = frame.shared().nth(2).unwrap().clone();
        let written: Vec<_> = std::iter::from_fn(|| frame.next_piece(limit)).collect();
        assert_eq!(written.concat(), whole);
        assert_eq!(written.len(), pieces, "{limit}");
        let is_shared = |piece: &bytes::Bytes| piece.as_ptr() == shared.as_ptr();
        assert_eq!(written.iter().any(is_shared), limit <= 1000);
    }
}

#[test]
fn s68_status_has_sent_and_acked_versions() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    stream.pass(Duration::from_secs(1));
    let reply = stream.reply(&world);
    let status = &stream.session.status()[0];
    assert_eq!(
        (status.resource_type.clone(), status.wildcard, status.names),
        (CDS, true, 0)
    );
    assert_eq!(
        (status.waiting_since, status.acked),
        (Some(stream.now), None)
    );
    let of = |stream: &Stream, name| stream.session.resource_status(&CDS, name).unwrap();
    assert!(of(&stream, "A").sent.is_some() && of(&stream, "A").acked.is_none());
    stream.ack(&reply);
    assert_eq!(of(&stream, "A").sent, of(&stream, "A").acked);
    assert_eq!(
        of(&stream, "Z"),
        Default::default(),
        "subscribed by wildcard, and does not exist"
    );
    assert_eq!(
        stream.session.resource_status(&EDS, "A"),
        None,
        "not subscribed"
    );

    assert!(stream.session.is_in_sync(&world.snapshot));
    world.set(&EDS, &["A=1"]);
    assert!(
        stream.session.is_in_sync(&world.snapshot),
        "not subscribed to EDS"
    );
    world.set(&CDS, &["A=2"]);
    assert!(!stream.session.is_in_sync(&world.snapshot));
    stream.pass(Duration::from_secs(1));
    let reply = stream.reply(&world);
    stream.pass(Duration::from_millis(20));
    stream.ack(&reply);
    let acked = stream.events().pop().unwrap();
    assert!(matches!(acked, Event::Acked { after, .. } if after == Duration::from_millis(20)));
    let status = &stream.session.status()[0];
    assert_eq!(
        (status.sent, status.acks, status.nacks),
        (status.acked, 2, 0)
    );
}

#[test]
fn p4_session_reports_its_interests() {
    let watched =
        |resource_type: &ResourceType, interests| Event::Watched(resource_type.clone(), interests);
    let name = |name: &str| Interest::Name(name.into());
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A", "B"], &[]);
    stream.change(&CDS, &["*"], &[]);
    assert_eq!(
        stream.events(),
        [
            watched(&EDS, vec![name("A"), name("B")]),
            watched(&CDS, vec![Interest::All])
        ]
    );
    stream.change(&EDS, &["A", "C"], &["B"]);
    stream.change(&CDS, &[], &["*"]);
    assert_eq!(
        stream.events(),
        [
            watched(&EDS, vec![name("C")]),
            Event::Unwatched(EDS, vec![name("B")]),
            Event::Unwatched(CDS, vec![Interest::All]),
        ]
    );
}
