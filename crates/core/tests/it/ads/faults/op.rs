//! Operations of the test, and the content of responses.

use std::time::Duration;

use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use proptest::prelude::*;

use crate::ads::{assignment, bad_cluster, cluster};

pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Content that is sent under a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Good(u8),
    Bad,
    /// Truncated bytes.
    Cut,
    /// Nested messages, deeper than decoders allow.
    Deep,
    /// A resource of another type.
    OfAnotherType,
    /// A malformed type URL.
    OfNoType,
    Huge,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Watch(usize),
    Unwatch(usize),
    /// Unwatched, and watched again before a request is written.
    Rewatch(usize),
    /// The first or the second server connects, if the client asked for it.
    Opened(usize),
    Closed(usize),
    /// Names; some of them twice, some never subscribed.
    Responds(usize, Vec<(usize, Body)>),
    /// The same response again.
    Repeats(usize),
    /// A delta response that removes the name.
    Removes(usize, usize),
    Reports(usize, usize, i32),
    OfUnknownType(usize),
    /// The clock advances by zero up to a year.
    Jumps(Duration),
    /// The clock goes back.
    Falls(Duration),
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => any::<u8>().prop_map(Body::Good),
        2 => Just(Body::Bad),
        1 => Just(Body::Cut),
        1 => Just(Body::Deep),
        1 => Just(Body::OfAnotherType),
        1 => Just(Body::OfNoType),
        1 => Just(Body::Huge),
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let (name, server) = (0..NAMES.len(), 0..2_usize);
    let jump = prop_oneof![0..2_000_u64, 0..31_536_000_000_u64];
    let resources = prop::collection::vec((name.clone(), body()), 0..5);
    prop_oneof![
        3 => name.clone().prop_map(Op::Watch),
        1 => name.clone().prop_map(Op::Unwatch),
        1 => name.clone().prop_map(Op::Rewatch),
        4 => server.clone().prop_map(Op::Opened),
        2 => server.clone().prop_map(Op::Closed),
        6 => (server.clone(), resources).prop_map(|(server, of)| Op::Responds(server, of)),
        1 => server.clone().prop_map(Op::Repeats),
        1 => (server.clone(), name.clone()).prop_map(|(server, name)| Op::Removes(server, name)),
        1 => (server.clone(), name, 0..17).prop_map(|(server, name, code)| Op::Reports(server, name, code)),
        1 => server.prop_map(Op::OfUnknownType),
        4 => jump.prop_map(|ms| Op::Jumps(Duration::from_millis(ms))),
        1 => (0..5_000_u64).prop_map(|ms| Op::Falls(Duration::from_millis(ms))),
    ]
}

pub(super) fn any_of(name: &str, body: Body) -> Any {
    match body {
        Body::Good(service) => cluster(name, &format!("s{service}")),
        Body::Bad => bad_cluster(name),
        Body::Cut => {
            let whole = cluster(name, "");
            let value = whole.value.slice(..whole.value.len() - 1);
            Any { value, ..whole }
        }
        Body::Deep => deep(name),
        Body::OfAnotherType => assignment(name),
        Body::OfNoType => Any {
            type_url: "nonsense".to_owned(),
            ..cluster(name, "")
        },
        Body::Huge => cluster(name, &"x".repeat(1 << 16)),
    }
}

/// A cluster with deeply nested lists in a Struct of its metadata.
pub(super) fn deep(name: &str) -> Any {
    let mut value = vec![0x08, 0x00];
    let field = |tag: u8, inner: &[u8]| {
        let mut outer = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend_from_slice(inner);
        outer
    };
    for _ in 0..200 {
        // Value.list_value (6) of ListValue.values (1).
        value = field(6 << 3 | 2, &field(1 << 3 | 2, &value));
    }
    // Struct.fields (1) is a map of Value (2), Metadata.filter_metadata (1) one of Struct, and Cluster.metadata is 25.
    let structure = field(1 << 3 | 2, &field(2 << 3 | 2, &value));
    let metadata = field(1 << 3 | 2, &field(2 << 3 | 2, &structure));
    let mut bytes = field(1 << 3 | 2, name.as_bytes());
    prost::encoding::encode_varint(25 << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(metadata.len() as u64, &mut bytes);
    bytes.extend_from_slice(&metadata);
    Any {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        value: bytes.into(),
    }
}
