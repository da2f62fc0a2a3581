//! Shared machinery of the tests: served resources, streams, a model client, and decoded replies.

pub(crate) mod cases;
pub(crate) mod choices;
pub(crate) mod link;
pub(crate) mod model;
mod model_type;
pub(crate) mod resources;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod world;

pub(crate) use stream::{Stream, configured};
pub(crate) use world::{Edit, World};
