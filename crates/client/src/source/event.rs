//! Events of a source's IO.

use std::fmt;

use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};
use tonic::Code;

use oxds_net::transport::SocketAddresses;

/// Event of a [`Feed`](super::Feed), for a state machine.
#[derive(Debug)]
pub enum SourceEvent {
    /// Requests can be written. Contains the addresses of the connection, if the source has one.
    Opened(Option<SocketAddresses>),
    /// A SotW response.
    Response(DiscoveryResponse),
    /// A delta response.
    DeltaResponse(DeltaDiscoveryResponse),
    /// The answer to a poll: nothing has changed.
    Unchanged,
    /// A poll failed, for this reason. The next poll follows by itself.
    PollFailed(String),
    /// A file or the answer to a poll is invalid, for this reason. The next one may be valid.
    Invalid(String),
    /// The stream ended, or could not be opened. [`AdsTransmit::Open`](oxds_core::ads::AdsTransmit::Open) opens the
    /// next one.
    Closed(StreamEnd),
}

/// Status with which a stream ended, or could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamEnd {
    /// Status code of the call: from the server, or `Unavailable` if the connection broke or could not be made.
    pub code: Code,
    /// Message for people.
    pub message: String,
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Code::Ok => f.write_str(&self.message),
            code => write!(f, "{code:?}: {}", self.message),
        }
    }
}
