//! Make before break: S-51 … S-55, and S-69.

mod additions;
mod bounds;
mod removals;
mod returning;
mod secrets;
mod warming;

use std::time::Duration;

use oxds_core::session::{HeldBack, WaitsFor};
use oxds_types::ResourceType;

use crate::support::{
    Edit, Stream, World,
    stream::{Reply, delta},
};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;
const LDS: ResourceType = ResourceType::LISTENER;
const RDS: ResourceType = ResourceType::ROUTE;
const SDS: ResourceType = ResourceType::SECRET;

/// Returns a world with a listener, its route, one cluster and its assignment.
fn shop() -> World {
    let mut world = World::empty();
    world.apply(
        Edit::default()
            .with(&LDS, "front=1", &[(RDS, "main")])
            .with(&RDS, "main=1", &[(CDS, "X")])
            .with(&CDS, "X=1", &[(EDS, "X")])
            .set(&EDS, "X=1"),
    );
    world
}

/// Replaces cluster X by Y, and changes the route to Y.
fn replace(world: &mut World) {
    world.apply(
        Edit::default()
            .with(&RDS, "main=2", &[(CDS, "Y")])
            .with(&CDS, "Y=1", &[(EDS, "Y")])
            .set(&EDS, "Y=1")
            .set(&CDS, "-X")
            .set(&EDS, "-X"),
    );
}

/// Opens a SotW and a delta stream that subscribe as Envoy does: wildcards for clusters and listeners, names for the
/// rest.
fn envoys(world: &World) -> [Stream; 2] {
    let mut sotw = Stream::sotw();
    sotw.ask(&CDS, &[]);
    sotw.drain(world);
    sotw.ask(&EDS, &["X"]);
    sotw.ask(&LDS, &[]);
    sotw.drain(world);
    sotw.ask(&RDS, &["main"]);
    sotw.drain(world);
    let mut delta = Stream::delta();
    delta.change(&CDS, &[], &[]);
    delta.drain(world);
    delta.change(&EDS, &["X"], &[]);
    delta.change(&LDS, &[], &[]);
    delta.drain(world);
    delta.change(&RDS, &["main"], &[]);
    delta.drain(world);
    // Long after start-up.
    [sotw, delta].map(|mut stream| {
        stream.pass(Duration::from_secs(60));
        stream
    })
}

/// Subscribes to one more assignment.
fn also_ask(stream: &mut Stream, is_delta: bool, name: &str) {
    if is_delta {
        stream.send(delta(&EDS, &[name], &[]));
    } else {
        stream.ask(&EDS, &["X", name]);
    }
}

fn resource_types(replies: &[Reply]) -> Vec<&str> {
    replies.iter().map(Reply::resource_type).collect()
}

/// Returns the held changes of a resource type as text: the change, its resource, and the resource that it waits for.
fn held(stream: &Stream, world: &World, resource_type: &ResourceType) -> Vec<String> {
    let text = |held: HeldBack| {
        let name = held.name.as_deref().unwrap_or("all");
        let waits_for = match held.waits_for {
            Some(WaitsFor {
                resource_type,
                name: None,
                ..
            }) => format!("{resource_type} all"),
            Some(waits_for) => waits_for.to_string(),
            None => "nothing".to_owned(),
        };
        format!("{} of {name} for {waits_for}", held.change.as_str())
    };
    let held: Vec<_> = stream
        .session
        .held_back(resource_type, &world.snapshot)
        .map(text)
        .collect();
    let status = stream.session.status();
    let counted = status
        .iter()
        .find(|status| status.resource_type == *resource_type);
    assert_eq!(counted.map(|status| status.held), Some(held.len()));
    held
}
