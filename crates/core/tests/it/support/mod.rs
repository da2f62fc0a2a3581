//! A world of resources, a stream onto it, and replies as a test wants to see them.

pub(crate) mod stream;
pub(crate) mod world;

pub(crate) use stream::{Reply, Stream};
pub(crate) use world::World;
