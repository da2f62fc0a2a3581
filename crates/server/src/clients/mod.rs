//! Clients of discovery: open streams, and clients that poll.

mod away;
mod client;
mod nack;
mod polls;
mod registry;
mod streams;
mod subscription;

pub(crate) use client::Client;
pub(crate) use nack::ReportedNack;
pub(crate) use polls::{ClientPoll, HandledPoll, OpenPoll, PollKind, PollReport};
pub(crate) use registry::{ClientCursor, Clients};
#[cfg(feature = "page")]
pub(crate) use streams::StreamState;
pub(crate) use streams::{OpenStream, OtherRegistration, StreamRegistration, lock};
pub(crate) use subscription::PollSubscription;
