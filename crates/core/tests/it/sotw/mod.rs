//! State of the world: S-1 … S-29.

mod answers;
mod names;
mod rejection;

use oxds_types::Kind;

use crate::support::{Stream, World};

const CDS: Kind = Kind::CLUSTER;
const EDS: Kind = Kind::ENDPOINT;

/// A stream that is in sync with the world, all of one kind or some names of it.
fn synced(world: &World, kind: &Kind, names: &[&str]) -> Stream {
    let mut stream = Stream::sotw();
    stream.ask(kind, names);
    stream.drain(world);
    stream
}
