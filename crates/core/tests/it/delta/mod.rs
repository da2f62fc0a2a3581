//! Delta: S-30 … S-50.

mod answers;
mod names;
mod resume;
mod split;

use oxds_types::{ResourceType, Version};

use crate::support::{Stream, World};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// Opens a stream that is in sync with the world, subscribed to all resources of a type or to some names.
fn synced(world: &World, resource_type: &ResourceType, names: &[&str]) -> Stream {
    let mut stream = Stream::delta();
    stream.change(resource_type, names, &[]);
    stream.drain(world);
    stream
}

/// Returns names and versions of resources, as a client reports them in `initial_resource_versions`.
fn has(texts: &[&str]) -> Vec<(String, String)> {
    texts
        .iter()
        .map(|text| {
            let (name, _) = text.split_once('=').unwrap();
            (name.to_owned(), Version::of(text.as_bytes()).to_string())
        })
        .collect()
}
