//! Clients of discovery: open streams, and clients that poll.

mod client;
mod nack;
mod polls;
mod registry;
mod streams;
mod subscription;

pub(crate) use client::Client;
pub(crate) use nack::ReportedNack;
pub(crate) use polls::{ClientPoll, HandledPoll, OpenPoll, PollKind, PollReport};
pub(crate) use registry::Clients;
pub(crate) use streams::{OpenStream, StreamRegistration, lock};
pub(crate) use subscription::PollSubscription;
