//! The server's machine: one per stream.

mod config;
mod error;
mod event;
mod frame;
mod nonce;
mod request;
mod status;

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use oxds_types::Kind;

pub use config::{Config, Scope, UnknownKinds};
pub use error::StreamError;
pub use event::{Event, Held, Interest};
pub use frame::{Frame, Transmit};
pub use nonce::Nonce;
pub use request::Request;
pub use status::{KindStatus, Nack, Rejection, ResourceStatus};

use crate::{
    snapshot::{Protocol, Snapshot},
    time::Instant,
};

/// The server's side of one xDS stream.
#[derive(Debug)]
pub struct Session {
    protocol: Protocol,
    scope: Scope,
    config: Arc<Config>,
    node: Option<Box<Node>>,
}

impl Session {
    /// The machine for a stream that has just been opened.
    #[must_use]
    pub fn new(protocol: Protocol, scope: Scope, config: Arc<Config>) -> Self {
        Self {
            protocol,
            scope,
            config,
            node: None,
        }
    }

    /// A message arrived. An error ends the stream: map it to a gRPC status.
    pub fn handle_request(&mut self, _now: Instant, _request: Request) -> Result<(), StreamError> {
        Ok(())
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// The next response to write, given what is served now. Poll until `None`: after every request, timeout, and
    /// change that the session asked to be woken for.
    pub fn poll_transmit(&mut self, _now: Instant, _snapshot: &Snapshot) -> Option<Transmit> {
        None
    }

    /// The next event. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Who the client is: what its first message said (S-22).
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// Every kind that the client asked for on this stream, in the order in which they are sent.
    #[must_use]
    pub fn status(&self) -> Vec<KindStatus> {
        Vec::new()
    }

    /// What the client has of one resource; `None` if it did not ask for it.
    #[must_use]
    pub fn resource_status(&self, _kind: &Kind, _name: &str) -> Option<ResourceStatus> {
        None
    }

    /// What the client rejected and has not got a better version of since, by name.
    pub fn rejections(&self, _kind: &Kind) -> impl Iterator<Item = (&Arc<str>, &Rejection)> {
        std::iter::empty()
    }

    /// Whether the client has accepted all that `snapshot` holds for it.
    #[must_use]
    pub fn is_in_sync(&self, _snapshot: &Snapshot) -> bool {
        true
    }
}
