//! The channelz service (gRFC A14) over the [registry](crate::channelz::Registry) of a pool.

pub mod message;
mod service;

pub use service::Channelz;
