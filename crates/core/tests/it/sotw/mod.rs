//! State of the world: S-1 … S-29.

mod answers;
mod names;
mod rejection;

use oxds_types::ResourceType;

use crate::support::{Stream, World};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// Opens a stream that is in sync with the world, subscribed to all resources of a type or to some names.
fn synced(world: &World, resource_type: &ResourceType, names: &[&str]) -> Stream {
    let mut stream = Stream::sotw();
    stream.ask(resource_type, names);
    stream.drain(world);
    stream
}
