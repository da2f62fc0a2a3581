//! Arguments and results of policies.

use std::fmt;
use std::net::SocketAddr;

use super::super::matcher::Headers;

/// Endpoints of one locality, as policies see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLocality {
    /// Weight of the locality within its priority; above zero.
    pub weight: u32,
    /// Endpoints of the locality.
    pub endpoints: Vec<PolicyEndpoint>,
}

/// One endpoint, as policies see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEndpoint {
    /// First address of the endpoint; unique within the cluster.
    pub address: SocketAddr,
    /// Weight within the locality; above zero.
    pub weight: u32,
}

/// Endpoints that connect as one, and of which at most one address is connected at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChild {
    /// Indexes of its endpoints in the priority, in the order in which they are tried. The endpoints of a priority are
    /// numbered over all its localities. Never empty.
    pub endpoints: Vec<usize>,
}

/// The part of an RPC that policies read.
#[derive(Clone, Copy)]
pub struct PickCall<'a> {
    /// Path of the method: `/package.Service/Method`.
    pub path: &'a str,
    /// Headers of the request.
    pub headers: &'a dyn Headers,
    /// Hash of the request by the route's hash policies; `None` if they give none (gRFC A42).
    pub hash: Option<u64>,
}

impl fmt::Debug for PickCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PickCall")
            .field("path", &self.path)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// Values of the children at the moment of a pick.
pub trait Children {
    /// Returns the number of RPCs that are under way to a child.
    fn in_flight(&self, child: usize) -> u32;
}

/// Result of a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Send the RPC to this child.
    Child(usize),
    /// Wait for the next picker, and connect this child unless it connects already.
    Connect(usize),
    /// Wait for the next picker.
    Queue,
    /// Fail the RPC, unless it waits for ready: no child can take it.
    Fail,
}
