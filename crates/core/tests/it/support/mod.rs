//! A world of resources, a stream onto it, and replies as a test wants to see them.

pub(crate) mod cases;
pub(crate) mod link;
pub(crate) mod model;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod world;

pub(crate) use stream::Stream;
pub(crate) use world::{Edit, World};
