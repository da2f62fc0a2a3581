//! Incremental: S-30 … S-50.

mod answers;
mod names;
mod resume;
mod split;

use oxds_types::{ResourceType, Version};

use crate::support::{Stream, World};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;

/// A stream that is in sync with the world: all of one kind, or some names of it.
fn synced(world: &World, resource_type: &ResourceType, names: &[&str]) -> Stream {
    let mut stream = Stream::delta();
    stream.change(resource_type, names, &[]);
    stream.drain(world);
    stream
}

/// What a client has that was told this.
fn has(texts: &[&str]) -> Vec<(String, String)> {
    texts
        .iter()
        .map(|text| {
            let (name, _) = text.split_once('=').unwrap();
            (name.to_owned(), Version::of(text.as_bytes()).to_string())
        })
        .collect()
}
